package cluster_test

import (
	"cmp"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A job goes on where it was, however often its worker is killed, across takeovers.
func TestClusterJobGoesOn(t *testing.T) {
	nightly.Only(t, "TestJobGoesOnBesideKills of e2e/faults has one pqd, and TestStepDown a takeover")
	t.Parallel()
	workers, faults := cmp.Or(*pqd.Ops, 100), cmp.Or(*pqd.Kills, 2)
	nodes := testenv.NewNodes(t)
	random := pqd.Seeded(t)
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	job := pqd.Checkpoints{TB: t, URL: nodes.URL(), Steps: 100, Random: random}
	job.Run(workers, faults, func(i int) {
		x.Happen(t, []string{"SIGKILL of the active node", "pq cluster step-down"}[i%2])
	})
}
