package peers

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster/internal/chain"
)

// An active member of an old generation is no sign of life, whatever its epoch.
func TestLifeOfOldGeneration(t *testing.T) {
	t.Parallel()
	at := chain.Head{Generation: 2, Epoch: 5}
	for generation, alive := range map[uint64]bool{1: false, 2: true, 3: true} {
		if got := (Heartbeat{Role: Active, Generation: generation, Epoch: 9}).ShowsLife(at); got != alive {
			t.Errorf("generation %d: a sign of life: %v, expected %v", generation, got, alive)
		}
	}
}
