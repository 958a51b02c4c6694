package cluster

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// What was synced in one generation says nothing of the entries of the next one.
func TestSyncedOfOldGeneration(t *testing.T) {
	t.Parallel()
	var s self
	s.opened(chain.Head{Generation: 2, Entry: 1})
	if s.flushed(1, 900); s.synced != 1 {
		t.Errorf("after a sync in generation 1 entries up to %d of generation 2 count as synced", s.synced)
	}
	if s.flushed(2, 3); s.synced != 3 {
		t.Errorf("entries up to %d count as synced, expected 3", s.synced)
	}
}
