package main

import (
	"crypto/sha256"
	"log/slog"
	"maps"
	"slices"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

// tenantsFile is the file of PQ_TENANTS: the quotas of tenants, and their tokens.
type tenantsFile struct {
	settings settings.Settings
	log      *slog.Logger
	latest   atomic.Pointer[settings.Tenants] // nil: there are none
}

// read reads the quotas of tenants, and their tokens.
func (t *tenantsFile) read() error {
	read, err := t.settings.ReadTenants()
	if err != nil || read == nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(read.Tokens)) {
		process.WarnOfOpenSecret("PQ_TENANTS", read.Tokens[name], t.log)
	}
	t.latest.Store(read)
	return nil
}

// quotas are the quotas of a tenant, as they were read last.
func (t *tenantsFile) quotas(tenant string) bridge.Quotas {
	return bridge.Quotas(t.latest.Load().Of(tenant))
}

// byToken is the tenant whose token has a hash, "" if none has.
func (t *tenantsFile) byToken(hash [sha256.Size]byte) string { return t.latest.Load().ByToken(hash) }

// haveTokens reports whether users of any tenant may use HTTP.
func (t *tenantsFile) haveTokens() bool {
	latest := t.latest.Load()
	return latest != nil && latest.HaveTokens()
}

// reload reads them again. A wrong file changes nothing.
func (t *tenantsFile) reload() {
	file := string(t.settings.Tenants)
	if err := t.read(); err != nil {
		t.log.Error("reading the quotas of tenants again failed: the old ones still hold", "file", file, "error", err)
		return
	}
	t.log.Info("read the quotas of tenants again", "file", file)
}
