package cluster_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each caller that waits for its item hears how that ended, and hears the truth, whichever of three pqd is active, and however that ends.
func TestClusterResults(t *testing.T) {
	nightly.Only(t, "TestResultsBesideKills of e2e/faults has one pqd, and TestStepDown a takeover")
	t.Parallel()
	n, faults := cmp.Or(*pqd.Ops, 2_000), cmp.Or(*pqd.Kills, 2)
	nodes := testenv.NewNodes(t)
	random := pqd.Seeded(t)
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	asked := pqd.NewAsked(t, nodes.URL(), n)
	took := asked.Run(random, 64, 16, faults, func(i int) {
		x.Happen(t, []string{"SIGKILL of the active node", "pq cluster step-down"}[i%2])
	})
	t.Logf("%d callers were answered in %s beside %d faults", n, took.Round(time.Millisecond), faults)
	asked.Judge()
}
