package fdbpq

import (
	"testing"
	"time"
)

// SetResolveTimeout has sessions look for unknown results for so long until the
// test ends.
func SetResolveTimeout(t testing.TB, d time.Duration) {
	usual := resolveTimeout
	resolveTimeout = d
	t.Cleanup(func() { resolveTimeout = usual })
}
