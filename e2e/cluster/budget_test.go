package cluster_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// What deliveries reserve, and what settlements correct, keeps the rate of cost, whichever of three pqd is active, and however that ends.
func TestClusterBudget(t *testing.T) {
	nightly.Only(t, "TestBudgetBesideKills of e2e/faults has one pqd, and TestStepDown a takeover")
	t.Parallel()
	n, faults := cmp.Or(*pqd.Ops, 2_000), cmp.Or(*pqd.Kills, 4)
	nodes := testenv.NewNodes(t)
	random := pqd.Seeded(t)
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	b := pqd.NewBudget(t, nodes.URL(), random, n)
	b.Run(random, 50, faults, func(i int) {
		x.Happen(t, []string{"SIGKILL of the active node", "pq cluster step-down"}[i%2])
	})
	b.Judge()
}
