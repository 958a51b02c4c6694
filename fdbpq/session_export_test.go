package fdbpq

import (
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/session"
)

// SetResolveTimeout has sessions look for unknown results for so long until the
// test ends.
func SetResolveTimeout(t testing.TB, d time.Duration) {
	usual := session.ResolveTimeout
	session.ResolveTimeout = d
	t.Cleanup(func() { session.ResolveTimeout = usual })
}
