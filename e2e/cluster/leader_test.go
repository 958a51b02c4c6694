package cluster_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The active node has another one lead the log, whoever dies or hands over: with both on one machine its death
// would stop the others until NATS has elected a leader.
func TestClusterLeaderApart(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
	x := &pqd.NodeFaults{Nodes: nodes, Random: pqd.Seeded(t)}
	apart := func(behind string) {
		t.Helper()
		testenv.Await(t, "another node than the active one leads the log behind "+behind, func() bool {
			leader := x.Leader()
			return leader != nil && leader.Running() && leader != nodes.Active(t)
		})
	}
	apart("the start")
	active, leader := nodes.Active(t), x.Leader()
	for _, p := range nodes.All {
		if p == active || p == leader {
			continue
		}
		p.Kill(t) // so the leader's node is the only one that can follow, once the others know
		for nodes.Active(t) != leader {
			x.StepDown(t)
		}
		p.Start(t) // while one is away nobody hands the log on
		apart("a step-down")
	}
	for _, what := range []string{pqd.LeaderKilled, "SIGKILL of the active node", "SIGTERM of the active node"} {
		x.Happen(t, what)
		apart(what)
	}
}
