package gateway

import (
	"crypto/sha256"
	"log/slog"
)

// Options configure a gateway.
type Options struct {
	Prefix  string // of the subjects
	Tenants bool   // subjects name tenants: queues have names such as acme.jobs
	Changes bool   // serve requests that change something
	Token   string // that callers show; "": they need none
	TokenIn string // where callers without a token find it; "": the line in the file PQ_CONSOLE_TOKEN

	// TenantOf returns the tenant whose token has a hash, "" if there is none. nil: no tenant has one. It needs Token.
	TenantOf func(hash [sha256.Size]byte) string

	Logger *slog.Logger // nil: none
}
