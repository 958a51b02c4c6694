package topologies_test

import (
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// open are the changes of the page's files by which both sides of a leaf node let the prefix through.
var (
	openHub  = []string{"0.0.0.0:7422", "127.0.0.1:-1", `permissions: {publish: {deny: "pq.>"}, subscribe: {deny: "pq.>"}}`, ""}
	openEdge = []string{"  deny_imports: [\"pq.>\"], deny_exports: [\"pq.>\"] # pqd's own server adds this line by itself\n", ""}
)

// openServers are a hub and an edge that keep nothing at their side. The link is cut.
func openServers(t *testing.T) (hub, edge *server.Server, link *testenv.Proxy) {
	t.Helper()
	hub = natsServer(t, file(t, "hub.conf", trusting(t, openHub...)...))
	link = testenv.NewProxy(t, "nats://"+leafAddress(t, hub))
	link.Block(true)
	edge = natsServer(t, file(t, "edge.conf", append([]string{throughHub, link.URL()[len("nats://"):]}, openEdge...)...))
	return hub, edge, link
}

// doctor runs pq doctor at a site, and returns what it says.
func doctor(t *testing.T, url string, more ...string) (text string, failed bool) {
	t.Helper()
	args := append([]string{"doctor", "--server", url, "--user", "pqd", "--password", passwords["PQD_PASSWORD"]}, more...)
	out, err := pqd.Command(t, testenv.Build(t, "cmd/pq"), args...).CombinedOutput()
	return string(out), err != nil
}

// At a leaf node that lets the prefix through, a pqd does not start beside the one at the other side, or
// goes on standby when the link comes later, and it says what to deny. Nothing is acknowledged by both.
func TestOpenLeafNode(t *testing.T) {
	t.Parallel()
	hub, edge, link := openServers(t)
	first := beside(t, hub, "PQ_SITE=hub")
	second := beside(t, edge, "PQ_SITE=edge7")
	link.Block(false)
	second.AwaitLog(t, "on standby")
	what := `deny_imports and deny_exports [\"pq.>\"]`
	if log := second.Log(); !strings.Contains(log, what) || !strings.Contains(log, "docs/topologies.md") {
		t.Errorf("the log of the one on standby does not say %s:\n%s", what, log)
	}
	if code, body := pqd.Get(t, second.HTTP+"/readyz"); code != 503 || !strings.Contains(body, "deny_imports") {
		t.Errorf("/readyz of the one on standby: %d %s", code, body)
	}
	if code, body := pqd.Get(t, first.HTTP+"/readyz"); code != 200 {
		t.Errorf("/readyz of the other one: %d %s", code, body)
	}
	if said, failed := doctor(t, hub.ClientURL()); !failed || !strings.Contains(said, `deny_imports and deny_exports ["pq.>"]`) {
		t.Errorf("pq doctor says\n%s", said)
	}
	second.Stop(t)
	code, _, stderr := testenv.Run(t, environment("NATS_URL="+edge.ClientURL(), "PQ_HTTP=127.0.0.1:0"))
	if code != 1 || !strings.Contains(stderr, "deny_imports and deny_exports") || !strings.Contains(stderr, "leaf node") {
		t.Errorf("a pqd at the other side ends with code %d and says %s", code, stderr)
	}
	link.Block(true) // which is one way to repair it
	second.Start(t)
	nc, err := nats.Connect(edge.ClientURL(), asPqd())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	pqd.Push(t, nc, "jobs", 1, "x")
}

// The hub can keep its prefix to itself at leaf nodes of edges that do not.
func TestHubClosesLeafNode(t *testing.T) {
	t.Parallel()
	hub := natsServer(t, file(t, "hub.conf", trusting(t, "0.0.0.0:7422", "127.0.0.1:-1")...))
	edge := natsServer(t, file(t, "edge.conf", append([]string{throughHub, leafAddress(t, hub)}, openEdge...)...))
	first, second := beside(t, hub, "PQ_SITE=hub"), beside(t, edge, "PQ_SITE=edge7")
	here, there := second.Connect(t, asPqd()), first.Connect(t, asPqd())
	joined(t, here, "hub.pq")
	joined(t, there, "edge7.pq")
	pqd.Push(t, here, "jobs", 1, "at the edge")
	pqd.Push(t, there, "jobs", 1, "at the hub")
	if got := pqd.Drain(t, here, "jobs"); len(got) != 1 || got[0] != "at the edge" {
		t.Errorf("the edge has %q", got)
	}
	if got := pqd.Drain(t, there, "jobs"); len(got) != 1 || got[0] != "at the hub" {
		t.Errorf("the hub has %q", got)
	}
	said, failed := doctor(t, edge.ClientURL())
	if failed || !strings.Contains(said, "hub (--prefix hub.pq)") {
		t.Errorf("pq doctor says\n%s", said)
	}
	if said, failed := doctor(t, edge.ClientURL(), "--prefix", "hub.pq"); failed || !strings.Contains(said, "the bridge is at the NATS server hub") {
		t.Errorf("pq doctor about the hub says\n%s", said)
	}
}

// Two edges with one name: both serve their own clients, and doctor finds them.
func TestEdgesWithOneName(t *testing.T) {
	t.Parallel()
	s := outsideSites(t)
	other := natsServer(t, file(t, "edge.conf", throughHub, strings.TrimPrefix(s.link.URL(), "nats://"), "server_name: edge7", "server_name: edge8"))
	misnamed := beside(t, other, "PQ_SITE=edge7")
	misnamed.AwaitLog(t, "two sites have one name")
	for _, p := range []*testenv.Process{s.edge, misnamed} {
		pqd.Push(t, p.Connect(t, asPqd()), "jobs", 1, "x")
		if code, body := pqd.Get(t, p.HTTP+"/readyz"); code != 200 {
			t.Errorf("/readyz: %d %s", code, body)
		}
	}
	if said, failed := doctor(t, s.hub.URL); !failed || !strings.Contains(said, "are called edge7: give each pqd another PQ_SITE") {
		t.Errorf("pq doctor says\n%s", said)
	}
}
