package topologies_test

import (
	"crypto/tls"
	"regexp"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Clients speak to pqd's own server by WebSocket, and connect again when that is cut.
func TestWebSocket(t *testing.T) {
	t.Parallel()
	cert, key := pqd.Certificate(t, t.TempDir())
	p := with(t, file(t, "websocket.conf", "0.0.0.0:8443", "127.0.0.1:-1", "/etc/nats/cert.pem", cert, "/etc/nats/key.pem", key))
	found := regexp.MustCompile(`Listening for websocket clients on wss://([\d.:]+)`).FindStringSubmatch(p.Log())
	if found == nil {
		t.Fatal("pqd does not log where it listens for WebSocket")
	}
	link := testenv.NewProxy(t, "nats://"+found[1])
	address := "wss" + link.URL()[len("nats"):]
	dial := func(options ...nats.Option) *nats.Conn {
		nc, err := nats.Connect(address, append(options, nats.Secure(&tls.Config{RootCAs: pqd.Trusted(t, cert)}), nats.MaxReconnects(-1), nats.ReconnectWait(0))...)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	nc := dial(asPqd())
	cases.Run(t, cases.File, "go", "pq", "c", nc, &cases.Go{NC: nc})

	worker := dial(nats.UserInfo("worker", passwords["WORKER_PASSWORD"]), nats.CustomInboxPrefix("_INBOX.worker"))
	pqd.Push(t, worker, "jobs", 1, "x")
	item := pqd.Lease(t, worker, "jobs", "1h")
	link.Cut()
	joinedBy(t, nc, "pq.jobs.info")
	if m := pqd.Request(t, worker, item.Reply, "+ACK"); m.Header.Get("Status") != "" {
		t.Errorf("the lease is lost: %v", m.Header)
	}
	repeatedly(t, nc, "pq", "across", link)
	p.Stop(t)
}
