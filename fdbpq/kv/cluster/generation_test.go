package cluster

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// What was synced in one generation says nothing of the entries of the next one.
func TestSyncedOfOldGeneration(t *testing.T) {
	t.Parallel()
	var s status
	s.opened(chain.Head{Generation: 2, Entry: 1})
	if s.flushed(1, 900); s.synced != 1 {
		t.Errorf("after a sync in generation 1 entries up to %d of generation 2 count as synced", s.synced)
	}
	if s.flushed(2, 3); s.synced != 3 {
		t.Errorf("entries up to %d count as synced, expected 3", s.synced)
	}
}

// A checkpoint of an old generation is not offered in the next one: a member would go over
// to the old one with it.
func TestCheckpointOfOldGeneration(t *testing.T) {
	t.Parallel()
	a := archive{id: "old", at: chain.Head{Generation: 1, Entry: 900}}
	if a.current(2, 1) {
		t.Error("a checkpoint of generation 1 is offered in generation 2")
	}
	a.at.Generation = 2
	if !a.current(2, 1) || a.current(2, 902) {
		t.Error("expected the checkpoint to be offered while the log goes on from it")
	}
}
