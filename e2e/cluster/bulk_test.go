package cluster_test

import (
	"cmp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bulk operation brings each dead letter back once, whichever of three pqd is active, and however
// that ends.
func TestClusterBulk(t *testing.T) {
	nightly.Only(t, "fdbpq has bulk operations beside all else, and TestStepDown a takeover")
	t.Parallel()
	nodes := testenv.NewNodes(t)
	nc, err := nats.Connect(nodes.URL(), nats.MaxReconnects(-1), nats.ReconnectWait(pqd.ReconnectWait), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	random := pqd.Seeded(t)
	x := &pqd.NodeFaults{Nodes: nodes, Random: random}
	l := pqd.NewLetters(t, nc, *pqd.DeadLetters)
	n := 0
	took, still := l.Requeue(random, cmp.Or(*pqd.Kills, 2), func() {
		x.Happen(t, []string{"SIGKILL of the active node", "pq cluster step-down"}[n%2])
		n++
	})
	t.Logf("%d dead letters are requeued in %s beside %d faults; nothing came back for %s of it", *pqd.DeadLetters, took, n, still)
	l.Judge()
}
