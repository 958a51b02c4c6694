package checkpoint

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// A checkpoint of an old generation is not offered in the next one: a member would go over
// to the old one with it.
func TestCheckpointOfOldGeneration(t *testing.T) {
	t.Parallel()
	a := Archive{id: "old", at: chain.Head{Generation: 1, Entry: 900}}
	if a.current(2, 1) {
		t.Error("a checkpoint of generation 1 is offered in generation 2")
	}
	a.at.Generation = 2
	if !a.current(2, 1) || a.current(2, 902) {
		t.Error("expected the checkpoint to be offered while the log goes on from it")
	}
}
