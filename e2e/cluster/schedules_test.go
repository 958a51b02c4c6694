package cluster_test

import (
	"cmp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each time of a schedule fires once, whichever of three pqd is active, and however that ends.
func TestClusterSchedules(t *testing.T) {
	nightly.Only(t, "fdbpq has schedules through crashes, and TestStepDown a takeover")
	t.Parallel()
	nodes := testenv.NewNodes(t, "PQ_LOG_LEVEL=debug") // it shows which node leads the log
	nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	random := pqd.Seeded(t)
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	s := pqd.NewSchedules(t, random, func() *nats.Conn { return nc })
	for n := range cmp.Or(*pqd.Kills, 2) {
		s.Await()
		what := []string{"SIGKILL of the active node", "pq cluster step-down", "SIGKILL of two", "SIGSTOP of the active node"}[n%4]
		told := what
		if x.Leader() == nodes.Active(t) {
			told += ", which leads the log" // NATS elects a leader before another node can be active
		}
		s.Happen(told, func() { x.Happen(t, what) })
	}
	s.Judge()
}
