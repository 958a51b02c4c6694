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
	Token   string // the operator's; "": callers need no token
	TokenIn string // where callers without a token find it; "": the line in the file PQ_CONSOLE_TOKEN

	// TenantOf returns the tenant whose token has a hash, or "". Without this function no tenant has a token. It needs Token.
	TenantOf func(hash [sha256.Size]byte) string

	Logger *slog.Logger // nil: none
}
