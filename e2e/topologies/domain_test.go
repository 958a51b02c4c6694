package topologies_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/testenv"
)

// Two sites have their logs in JetStream domains of their own, with the same name. Each goes on when the link is cut, and has its own
// items afterwards.
func TestJetStreamDomains(t *testing.T) {
	t.Parallel()
	hubFile := file(t, "hub.conf", trusting(t, "0.0.0.0:7422", "127.0.0.1:-1", "leafnodes {", `jetstream { domain: hub, store_dir: "`+t.TempDir()+`", sync_interval: always }
leafnodes {`, `{publish: {deny: "pq.>"}, subscribe: {deny: "pq.>"}}`, `{publish: {deny: ["pq.>", "PQ_CLUSTER.>"]}, subscribe: {deny: ["pq.>", "PQ_CLUSTER.>"]}}`)...)
	hub := natsServer(t, hubFile)
	link := testenv.NewProxy(t, "nats://"+leafAddress(t, hub))
	edge := natsServer(t, file(t, "domain.conf", throughHub, strings.TrimPrefix(link.URL(), "nats://"), "/var/lib/nats", t.TempDir()))
	start := func(srv *server.Server, site string) *testenv.Process {
		env := []string{
			"PQ_STORE=jetstream:pq?sync=always&replicas=1&max_bytes=64M&domain=" + site, "PQ_SITE=" + site,
			"PQ_NODE=" + site, "PQ_DATA=" + filepath.Join(t.TempDir(), "node"),
		}
		if code, _, stderr := testenv.Run(t, environment(append(env, "NATS_URL="+srv.ClientURL())...), "init"); code != 0 {
			t.Fatalf("pqd init at %s ended with code %d: %s", site, code, stderr)
		}
		return beside(t, srv, env...)
	}
	atHub, atEdge := start(hub, "hub"), start(edge, "edge7")
	there, here := atHub.Connect(t, asPqd()), atEdge.Connect(t, asPqd())
	for prefix, nc := range map[string]*nats.Conn{"hub.pq": here, "edge7.pq": there} {
		joined(t, nc, prefix)
	}
	cases.Run(t, cases.File, "go", "pq", "at-edge-", here, &cases.Go{NC: here})
	cases.Run(t, cases.File, "go", "hub.pq", "from-edge-", here, &cases.Go{NC: here})
	cut(t, link, here, there)
	link.Block(false)
	joined(t, here, "hub.pq")
	acrossCuts(t, here, "hub.pq", link)
	for _, p := range []*testenv.Process{atEdge, atHub} {
		p.Stop(t)
		p.Start(t)
	}
	here = atEdge.Connect(t, asPqd())
	joined(t, here, "pq")
	for _, queue := range queues(t, here, "pq") {
		if strings.HasPrefix(queue, "from-edge-") || queue == "across" {
			t.Errorf("the edge has the queue %s of the hub", queue)
		}
	}
}
