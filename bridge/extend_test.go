package bridge_test

import (
	"testing"
	"time"
)

// A settlement that extends a lease extends it by what it was leased for.
func TestExtensionIsAsLongAsTheLease(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "x")
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "2h")
	if got := lease(t, c.raw(item.Reply, "+WPI")); got != 2*time.Hour {
		t.Errorf("extended by %s, expected 2h", got)
	}
}
