package faults_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// network is a campaign behind networks that cut, delay and lose: those of the clients,
// and that of pqd if its NATS server is another process.
type network struct {
	*pqd.Campaign
	proxies []*testenv.Proxy
}

func newNetwork(t *testing.T, outside bool) *network {
	n := &network{Campaign: &pqd.Campaign{Random: pqd.Seeded(t), Faults: make(map[string]int)}}
	var server string
	if outside {
		server = testenv.NATS(t).URL()
		n.proxies = append(n.proxies, testenv.NewProxy(t, server))
		n.Process = testenv.Daemon(t, "NATS_URL="+n.proxies[0].URL())
	} else {
		n.Process = testenv.Daemon(t)
		server = n.Process.URL
	}
	clients := testenv.NewProxy(t, server)
	n.proxies, n.URL = append(n.proxies, clients), clients.URL()
	n.Fault = func(testing.TB) string {
		at := n.Random.IntN(len(n.proxies))
		what := n.proxies[at].Trouble(n.Random)
		if at < len(n.proxies)-1 {
			return what + ", of pqd"
		}
		return what
	}
	return n
}

// rounds judges histories until they have that many operations.
func (n *network) rounds(t *testing.T, operations, workers, steps, faults int) {
	done := 0
	for round := 0; done < operations && !t.Failed(); round++ {
		done += n.Long(t, fmt.Sprintf("n%d", round), workers, steps, n.Moments(faults, int64(workers*steps))...)
	}
	t.Logf("%d operations, network faults: %v", done, n.Faults)
	for _, p := range n.proxies {
		p.Calm()
	}
	// The last fault may have cut pqd's connection.
	w := &testenv.Worker{TB: t, Queue: "n0", Dial: n.Dial(), Random: n.Random}
	w.Connect()
	w.Info()
	w.Close()
	n.Process.Stop(t)
}

// However connections between clients, the NATS server and pqd break, stall or fall
// silent, every guarantee holds. -pq.ops sets how long it lasts.
func TestNetworkFaults(t *testing.T) {
	t.Parallel()
	for _, kind := range []struct {
		name    string
		outside bool
	}{{"embedded", false}, {"outside", true}} {
		t.Run(kind.name, func(t *testing.T) {
			t.Parallel()
			if *pqd.Ops == 0 && !kind.outside {
				t.Skip("no -pq.ops")
			}
			n := newNetwork(t, kind.outside)
			if *pqd.Ops == 0 {
				n.rounds(t, 1, 6, 30, 10)
				return
			}
			n.rounds(t, *pqd.Ops/2, 16, 500, 80)
		})
	}
}

// pqd notices a network that loses everything, the end of a connection included: it
// connects again by itself, and the server sends it all requests once its own pings have
// found the end of the old connection.
func TestSilentNetwork(t *testing.T) {
	t.Parallel()
	if *pqd.Ops == 0 {
		t.Skip("no -pq.ops: it takes a minute")
	}
	server := testenv.NATS(t, func(o *server.Options) { o.PingInterval = 30 * time.Second })
	proxy := testenv.NewProxy(t, server.URL())
	p := testenv.Daemon(t, "NATS_URL="+proxy.URL())
	nc := server.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "before")
	proxy.Silence()
	// The pings of pqd need a minute, as long as a test waits for what happens at once.
	for lost := 0; ; lost++ {
		if _, err := nc.Request("pq.jobs.info", nil, testenv.Times(time.Second)); err == nil {
			break
		}
		if lost == 150 {
			t.Fatal("pqd has not connected again")
		}
	}
	p.AwaitLog(t, "reconnected to NATS")
	// Until the server knows, it gives about half of the requests to the old
	// connection, which answers none.
	unanswered := 0
	for end, row := testenv.BeginWait(), 0; row < 20; row++ {
		if _, err := nc.Request("pq.jobs.info", nil, testenv.Times(time.Second)); err != nil {
			row = 0
			unanswered++
		}
		if end.Over() {
			t.Fatalf("%d requests had no answer in %s", unanswered, testenv.Patience())
		}
	}
	t.Logf("%d requests had no answer", unanswered)
	if body := pqd.Pop(t, nc, "jobs", "min"); body != "before" {
		t.Errorf("popped %q", body)
	}
	nc.Close()
	proxy.Calm()
	p.Stop(t)
}
