package cluster_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// A node with another secret says so, once, in its log and in /readyz, and sends clients
// away. The others name it, and serve.
func TestWrongClusterSecret(t *testing.T) {
	t.Parallel()
	nodes := testenv.NewNodes(t)
	active := nodes.Active(t)
	at := slices.IndexFunc(nodes.All, func(p *testenv.Process) bool { return p != active })
	wrong := nodes.All[at]
	right := wrong.Setting("PQ_CLUSTER_SECRET")
	other := filepath.Join(t.TempDir(), "secret")
	pqd.Write(t, other, "not what the others have\n")
	wrong.Stop(t)
	before := len(wrong.Log())
	wrong.Change("PQ_CLUSTER_SECRET=" + other)
	wrong.Begin(t)
	const says = "another node has another secret"
	wrong.AwaitLog(t, says)
	testenv.Await(t, "/readyz has the reason", func() bool {
		page := wrong.Page(t, "/readyz")
		return strings.Contains(page, "has another secret than this one") && strings.Contains(page, "PQ_CLUSTER_SECRET")
	})
	away := make(chan struct{})
	testenv.Await(t, "a client is connected", func() bool {
		nc, err := nats.Connect(wrong.URL, nats.NoReconnect(), nats.ClosedHandler(func(*nats.Conn) { close(away) }))
		if err == nil {
			t.Cleanup(nc.Close)
		}
		return err == nil
	})
	<-away

	nc := active.Connect(t)
	pqd.AskServing(t, nc, "pq.jobs.push.1", "kept")
	active.AwaitLog(t, says)
	for p, since := range map[*testenv.Process]int{wrong: before, active: 0} {
		log := p.Log()[since:]
		if strings.Count(log, says) != 1 || strings.Contains(log, "Authorization") || strings.Contains(log, "authentication error") {
			t.Errorf("expected %q once, and nothing cryptic, in: %s", says, log)
		}
	}
	wrong.Stop(t)
	wrong.Change("PQ_CLUSTER_SECRET=" + right)
	wrong.Start(t)
	if got := string(pqd.AskServing(t, wrong.Connect(t), "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q through the node with the right secret, expected the item", got)
	}
}
