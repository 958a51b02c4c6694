package bridge_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// ofBoth runs a test with a server that the bridge asks by messages, and with one in its own process.
func ofBoth(t *testing.T, test func(t *testing.T, c *client)) {
	eachOwn(t, func(t *testing.T, own bool) { test(t, serveAt(t, testenv.NATS(t), own)) })
}

func eachOwn(t *testing.T, test func(t *testing.T, own bool)) {
	t.Parallel()
	for _, own := range []bool{false, true} {
		t.Run(fmt.Sprintf("own=%t", own), func(t *testing.T) {
			t.Parallel()
			test(t, own)
		})
	}
}

// serveAt starts a bridge at a server, which is one in its own process or not.
func serveAt(t *testing.T, at *testenv.Server, own bool) *client {
	t.Helper()
	o := chosen(nil)
	if own {
		o.Interest = at.Interest
	}
	return serveWith(t, at, o)
}

// serveWith starts a bridge with options at a server, whose answers it awaits.
func serveWith(t *testing.T, at *testenv.Server, o bridge.Options, options ...nats.Option) *client {
	t.Helper()
	env := &testenv.Bridged{NATS: at, Store: testenv.Store(t)}
	var err error
	if env.Bridge, err = bridge.Start(t.Context(), at.Connect(t, append(bridge.ConnectOptions(nil), options...)...), env.Store, o); err != nil {
		t.Fatal(err)
	}
	bridge.InterestPatience(env.Bridge, testenv.Most)
	c := &client{TB: t, Conn: at.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	return c
}

// via returns a client on a connection to another server.
func (c *client) via(s *testenv.Server) *client {
	return &client{TB: c.TB, Conn: s.Connect(c.TB), env: c.env}
}

// waitMany has n pops wait at a queue, each at a subject of its own.
func (c *client) waitMany(n int, queue string, header ...string) (subs []*nats.Subscription) {
	c.Helper()
	for range n {
		sub, err := c.SubscribeSync(c.NewInbox())
		if err != nil {
			c.Fatal(err)
		}
		subs = append(subs, sub)
		m := &nats.Msg{Subject: "pq." + queue + ".pop.min", Reply: sub.Subject, Header: h(append(header, "PQ-Wait", forever)...)}
		if err := c.PublishMsg(m); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		c.Fatal(err)
	}
	return subs
}

// leave unsubscribes.
func (c *client) leave(subs []*nats.Subscription) {
	c.Helper()
	for _, sub := range subs {
		if err := sub.Unsubscribe(); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		c.Fatal(err)
	}
}

// firstLease checks that an item comes to its first lease.
func (c *client) firstLease(from answers, body string) {
	c.Helper()
	m := c.next(from)
	if string(m.Data) != body || m.Header.Get("PQ-Deliveries") != "1" || m.Header.Get("PQ-Fence") != "1" {
		c.Errorf("%q, %v: expected the first lease of %s", m.Data, m.Header, body)
	}
	c.accepted(c.raw(m.Reply, "+ACK"))
}

// gonePops is how many waits ended because nobody listened any more.
func (c *client) gonePops() float64 { return c.own()["pq_requests_total{code=408,verb=pop}"] }

// servedPops is how many pops got items.
func (c *client) servedPops() float64 { return c.own()["pq_requests_total{code=200,verb=pop}"] }

// Leased waits of many workers that have gone, in order or not, cost an item no lease. Workers of
// other queues notice nothing.
func TestGoneWorkersKillNothing(t *testing.T) {
	ofBoth(t, func(t *testing.T, c *client) {
		const connections = 10
		ghosts, others := nightly.Fewer(1000), nightly.Fewer(1000)
		inbox := c.NewInbox()
		beside := c.hearUpTo(others, inbox+".>")
		for i := range others {
			m := &nats.Msg{Subject: fmt.Sprintf("pq.q%d.pop.min", i), Reply: fmt.Sprint(inbox, ".", i), Header: h("PQ-Wait", forever, "PQ-Lease", "1h")}
			if err := c.PublishMsg(m); err != nil {
				t.Fatal(err)
			}
		}
		from := serve(t)
		from.push("pq.jobs.push", "imported")
		item := from.ask("pq.jobs.get."+from.ask("pq.jobs.peek.min", "").Header.Get("PQ-Id"), "")
		server := c.env.NATS.Server()
		for round, arrives := range []func(){
			func() { c.push("pq.jobs.push", "pushed") },
			func() {
				c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.jobs.import", Header: item.Header, Data: item.Data}))
			},
		} {
			var gone []*client
			var subs [][]*nats.Subscription
			for range connections {
				gone = append(gone, c.another())
				subs = append(subs, gone[len(gone)-1].waitMany(ghosts/connections, "jobs", "PQ-Lease", "1h"))
			}
			testenv.Await(t, "all wait", func() bool { return c.total() == ghosts+others })
			live := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
			testenv.Await(t, "the worker waits behind them", func() bool { return c.total() == ghosts+others+1 })
			clients := server.NumClients()
			for i, worker := range gone {
				if round == 0 {
					worker.leave(subs[i])
				}
				worker.Close()
			}
			testenv.Await(t, "the workers have gone", func() bool { return server.NumClients() == clients-connections })
			arrives()
			m := c.next(live)
			if m.Header.Get("PQ-Deliveries") != "1" || c.servedPops() != float64(round+1) || c.gonePops() != float64(ghosts*(round+1)) {
				t.Errorf("%q, %v: after %g leases and %g dropped waits", m.Data, m.Header, c.servedPops(), c.gonePops())
			}
			c.accepted(c.raw(m.Reply, "+ACK"))
		}
		if c.total() != others || len(beside.came) > 0 {
			t.Errorf("%d pops wait at other queues, %d were answered", c.total(), len(beside.came))
		}
	})
}

// A worker leaves around the commit that serves it: it has the item, or the queue has.
func TestCancelMeetsServe(t *testing.T) {
	ofBoth(t, func(t *testing.T, c *client) {
		seed := rand.Uint64()
		random := rand.New(rand.NewPCG(seed, 0))
		worker := c.another()
		var had, left int
		most := 12 // flushes, which become more where the commit takes longer than they do
		for range nightly.Fewer(1500) {
			came := make(chan *nats.Msg, 2)
			sub, err := worker.ChanSubscribe(worker.NewInbox(), came)
			if err != nil {
				t.Fatal(err)
			}
			if err := worker.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.Subject, Header: h("PQ-Wait", forever, "PQ-Lease", "1h")}); err != nil {
				t.Fatal(err)
			}
			if err := worker.Flush(); err != nil {
				t.Fatal(err)
			}
			pushed := c.send("pq.jobs.push", "x")
			for range random.IntN(most) {
				if err := c.Flush(); err != nil { // for a while
					t.Fatal(err)
				}
			}
			// The connection gets what the server has sent there before.
			if err := sub.Drain(); err != nil {
				t.Fatal(err)
			}
			if err := worker.Flush(); err != nil {
				t.Fatal(err)
			}
			c.acknowledged(c.next(pushed))
			if len(came) > 0 {
				had++
				most = max(most-most/8, 2)
				c.accepted(c.raw((<-came).Reply, "+ACK"))
				continue
			}
			left++
			most += most/8 + 1
			m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
			if m.Header.Get("PQ-Deliveries") != "1" {
				t.Fatalf("seed %d: neither had the item at first: %v", seed, m.Header)
			}
			c.accepted(c.raw(m.Reply, "+ACK"))
		}
		if i := c.info("jobs"); had == 0 || left == 0 || i.Ready+i.Leased > 0 {
			t.Errorf("seed %d: the worker had %d items, the queue %d: expected both; left: %+v", seed, had, left, i)
		}
	})
}

// A worker's connection is cut, and the library subscribes anew to the same inbox. The item comes once, whichever of its two
// pops gets it.
func TestReconnectWithTheSameInbox(t *testing.T) {
	ofBoth(t, func(t *testing.T, c *client) {
		proxy := testenv.NewProxy(t, c.env.NATS.URL())
		nc, err := nats.Connect(proxy.URL(), nats.ReconnectWait(1), nats.ReconnectJitter(0, 0), nats.MaxReconnects(-1), nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		worker := &client{TB: t, Conn: nc, env: c.env}
		came := worker.hear(worker.NewInbox())
		ask := func() {
			if err := worker.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: came.inbox, Header: h("PQ-Wait", forever, "PQ-Lease", "1h")}); err != nil {
				t.Fatal(err)
			}
		}
		ask()
		c.waiting("jobs", 1)
		proxy.Cut()
		testenv.Await(t, "the worker is back", func() bool { return nc.Stats().Reconnects > 0 && nc.IsConnected() })
		ask()
		c.waiting("jobs", 2)
		for left, body := range []string{"second", "first"} {
			c.push("pq.jobs.push", body)
			worker.firstLease(came, body)
			c.waiting("jobs", 1-left)
		}
		if len(came.came) > 0 {
			t.Errorf("%d more answers", len(came.came))
		}
	})
}

// One of two waiting pops with one id has gone: the other one has the item. If both have, the queue has.
func TestRepeatedPopGone(t *testing.T) {
	ofBoth(t, func(t *testing.T, c *client) {
		for i, goes := range [][]bool{{true, false}, {false, true}, {true, true}} {
			id := fmt.Sprint("id", i)
			option := []string{"Nats-Msg-Id", id, "PQ-Lease", "1h"}
			worker := c.another()
			var gone []*nats.Subscription
			var live answers
			for _, goes := range goes {
				if goes {
					gone = append(gone, worker.waitMany(1, "jobs", option...)...)
				} else {
					live = c.send("pq.jobs.pop.min", "", append(option, "PQ-Wait", forever)...)
				}
			}
			c.waiting("jobs", 2)
			worker.leave(gone)
			c.push("pq.jobs.push", id)
			if live.came == nil {
				c.waiting("jobs", 0)
				live = c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h")
			}
			c.firstLease(live, id)
		}
	})
}

// A client on another server has gone: the bridge's server knows when the news arrives.
func testGoneElsewhere(t *testing.T, here, there *testenv.Server, own bool) {
	c := serveAt(t, here, own)
	worker := c.via(there)
	testenv.Await(t, "the servers are joined", func() bool {
		_, err := worker.Request("pq._sys.info", nil, testenv.Attempt())
		return err == nil
	})
	const ghosts = 100
	subs := worker.waitMany(ghosts, "jobs", "PQ-Lease", "1h")
	c.waiting("jobs", ghosts)
	live := c.via(there).send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
	c.waiting("jobs", ghosts+1)
	worker.Close()
	testenv.Await(t, "the news arrives", func() bool {
		for _, sub := range subs {
			if here.Server().GlobalAccount().Interest(sub.Subject) > 0 {
				return false
			}
		}
		return true
	})
	c.push("pq.jobs.push", "x")
	c.firstLease(live, "x")
	if n := c.gonePops(); n != ghosts {
		t.Errorf("%g waits were dropped, expected %d", n, ghosts)
	}
}

func TestLeafClientGone(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		hub := testenv.NATS(t, func(o *server.Options) { o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", -1 })
		varz, err := hub.Server().Varz(nil)
		if err != nil {
			t.Fatal(err)
		}
		leaf := testenv.NATS(t, func(o *server.Options) {
			at := &url.URL{Scheme: "nats-leaf", Host: fmt.Sprintf("127.0.0.1:%d", varz.LeafNode.Port)}
			o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{at}}}
		})
		testGoneElsewhere(t, hub, leaf, own)
	})
}

func TestRoutedClientGone(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		routed := func(to ...*testenv.Server) *testenv.Server {
			return testenv.NATS(t, func(o *server.Options) {
				o.Cluster = server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT}
				for _, s := range to {
					o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: s.Server().ClusterAddr().String()})
				}
			})
		}
		first := routed()
		testGoneElsewhere(t, first, routed(first), own)
	})
}

// The server knows no interest of a client beyond a gateway, which listens all the same, whether its reply subject is
// mapped or not.
func TestGatewayClientIsNoGhost(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		gateway := func(name string, to *testenv.Server) *testenv.Server {
			return testenv.NATS(t, func(o *server.Options) {
				o.Gateway = server.GatewayOpts{Name: name, Host: "127.0.0.1", Port: server.RANDOM_PORT}
				if to != nil {
					at := &url.URL{Scheme: "nats", Host: to.Server().GatewayAddr().String()}
					o.Gateway.Gateways = []*server.RemoteGatewayOpts{{Name: "east", URLs: []*url.URL{at}}}
				}
			})
		}
		east := gateway("east", nil)
		west := gateway("west", east)
		testenv.Await(t, "the clusters are joined", func() bool {
			return east.Server().NumOutboundGateways() == 1 && west.Server().NumOutboundGateways() == 1
		})
		c := serveAt(t, east, own)
		worker := c.via(west)
		testenv.Await(t, "the request arrives", func() bool {
			_, err := worker.Request("pq._sys.info", nil, testenv.Attempt())
			return err == nil
		})
		old := worker.hear(worker.NewInbox())
		var arrived atomic.Value
		if _, err := c.Subscribe("probe", func(m *nats.Msg) { arrived.Store(m.Reply) }); err != nil {
			t.Fatal(err)
		}
		testenv.Await(t, "the reply subject is not mapped any more", func() bool {
			if err := worker.PublishRequest("probe", old.inbox, nil); err != nil {
				t.Fatal(err)
			}
			return arrived.Load() == old.inbox
		})
		for _, lease := range [][]string{nil, {"PQ-Lease", "1h"}} {
			for _, mapped := range []bool{false, true} {
				from := old
				if mapped {
					from = worker.hear(worker.NewInbox())
				}
				header := h(append(lease, "PQ-Wait", forever)...)
				if err := worker.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: from.inbox, Header: header}); err != nil {
					t.Fatal(err)
				}
				c.waiting("jobs", 1)
				c.push("pq.jobs.push", "x")
				m := c.next(from)
				for m.Header.Get("Nats-Subject") == "probe" { // nobody was there yet
					m = c.next(from)
				}
				if string(m.Data) != "x" {
					t.Errorf("mapped %t: %q, %v", mapped, m.Data, m.Header)
				}
			}
		}
		if n := c.gonePops(); n > 0 {
			t.Errorf("%g waits were dropped", n)
		}
	})
}

// The server restarts under waits. None is served before its client is back, although items arrive meanwhile, and each item
// comes once.
func TestServerRestartsUnderWaits(t *testing.T) {
	t.Parallel()
	c := serveAt(t, testenv.NATS(t), false)
	worker := &client{TB: t, Conn: c.env.NATS.Connect(t, nats.ReconnectWait(time.Millisecond), nats.MaxReconnects(-1)), env: c.env}
	before := worker.hear(worker.NewInbox() + ".*")
	wait := func(inbox string) {
		for i, lease := range []string{"1h", "2h", "3h"} {
			to := strings.TrimSuffix(inbox, "*") + fmt.Sprint(i)
			if err := worker.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: to, Header: h("PQ-Wait", forever, "PQ-Lease", lease)}); err != nil {
				t.Fatal(err)
			}
		}
	}
	wait(before.inbox)
	c.waiting("jobs", 3)
	reconnects := worker.Stats().Reconnects
	c.env.NATS.Shutdown()
	testenv.Await(t, "the worker is away", func() bool { return !worker.IsConnected() })
	c.pushPast(fdbpq.NewItem{Payload: []byte("a")}, fdbpq.NewItem{Payload: []byte("b")}, fdbpq.NewItem{Payload: []byte("c")})
	c.env.NATS.Restart(t)
	testenv.Await(t, "all are back", func() bool {
		return worker.Stats().Reconnects > reconnects && worker.IsConnected() && c.IsConnected() && c.env.Bridge.Ready() == nil
	})
	after := worker.hear(worker.NewInbox() + ".*")
	wait(after.inbox)
	seen := make(map[string]int)
	for range 3 {
		var m *nats.Msg
		select {
		case m = <-before.came:
		case m = <-after.came:
		case <-testenv.Late():
			t.Fatalf("only %v came", seen)
		}
		seen[string(m.Data)]++
		if m.Header.Get("PQ-Deliveries") != "1" || m.Header.Get("PQ-Fence") != "1" {
			t.Errorf("%q was served before its client was back: %v", m.Data, m.Header)
		}
		c.accepted(c.raw(m.Reply, "+ACK"))
	}
	if len(seen) != 3 || len(before.came)+len(after.came) > 0 {
		t.Errorf("%v came, and %d more answers", seen, len(before.came)+len(after.came))
	}
}

// deaf is a connection whose server answers no pings while muted, and all of them later. It sends all else.
type deaf struct {
	net.Conn
	*deafDialer
	from  *bufio.Reader
	held  []byte
	pongs int // that are late
}

func (d *deaf) Read(p []byte) (int, error) {
	for len(d.held) == 0 {
		line, err := d.from.ReadBytes('\n')
		if err != nil {
			return 0, err
		}
		fields := strings.Fields(string(line))
		switch {
		case len(fields) > 0 && strings.HasSuffix(fields[0], "MSG"):
			size, err := strconv.Atoi(fields[len(fields)-1])
			if err != nil {
				return 0, err
			}
			body := make([]byte, size+len("\r\n"))
			if _, err := io.ReadFull(d.from, body); err != nil {
				return 0, err
			}
			d.held = append(line, body...)
		case len(fields) > 0 && fields[0] == "INFO" && d.version != "":
			d.held = bytes.Replace(line, []byte(`"version":"`+server.VERSION+`"`), []byte(`"version":"`+d.version+`"`), 1)
		case len(fields) == 1 && fields[0] == "PONG" && d.muted.Load():
			d.pongs++
		default:
			if d.muted.Load() {
				d.held = line
				continue
			}
			d.held = append(bytes.Repeat([]byte("PONG\r\n"), d.pongs), line...)
			d.pongs = 0
		}
	}
	n := copy(p, d.held)
	d.held = d.held[n:]
	return n, nil
}

func (d *deaf) Write(p []byte) (int, error) {
	d.mu.Lock()
	d.sent = append(d.sent, p...)
	d.mu.Unlock()
	return d.Conn.Write(p)
}

// deafDialer dials such connections.
type deafDialer struct {
	muted   atomic.Bool
	version string // that the server says it has; "": its own

	mu   sync.Mutex
	sent []byte // to the server
}

// sentTo is how many messages were sent to subjects that begin with a prefix.
func (d *deafDialer) sentTo(prefix string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return bytes.Count(d.sent, []byte("PUB "+prefix))
}

func (d *deafDialer) Dial(network, address string) (net.Conn, error) {
	conn, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &deaf{Conn: conn, deafDialer: d, from: bufio.NewReader(conn)}, nil
}

// The server does not answer questions. Waits are served after a moment, and none is dropped. What asks nothing notices nothing.
func TestQuestionFails(t *testing.T) {
	t.Parallel()
	env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.Store(t)}
	dialer := &deafDialer{}
	var err error
	nc := env.NATS.Connect(t, append(bridge.ConnectOptions(nil), nats.SetCustomDialer(dialer))...)
	if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, chosen(nil)); err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	queues := map[string][]string{"good": nil, "leased": {"PQ-Lease", "1h"}, "once": {"Nats-Msg-Id", "x"}}
	waits := make(map[string]answers)
	for queue, option := range queues {
		waits[queue] = c.send("pq."+queue+".pop.min", "", append(option, "PQ-Wait", forever)...)
	}
	testenv.Await(t, "all wait", func() bool { return c.total() == len(queues) })
	dialer.muted.Store(true)
	for queue := range queues {
		c.push("pq."+queue+".push", queue)
		c.push("pq.beside.push", queue)
		if m := c.pop("pq.beside.pop.min", ""); string(m.Data) != queue {
			t.Errorf("beside them: %q", m.Data)
		}
	}
	for queue, from := range waits {
		if m := c.next(from); string(m.Data) != queue {
			t.Errorf("%s: %q, %v", queue, m.Data, m.Header)
		}
	}
	dialer.muted.Store(false)
	if n := c.gonePops(); n > 0 {
		t.Errorf("%g waits were dropped", n)
	}
}

// A pop that does not wait costs no question. What a bridge says of its own accord is none: it looks for rivals, for example.
func TestNoWaitIsNotAsked(t *testing.T) {
	t.Parallel()
	const inboxes = "_INBOX.caller"
	dialer := &deafDialer{}
	c := serveWith(t, testenv.NATS(t), chosen(nil), nats.SetCustomDialer(dialer))
	c = &client{TB: t, Conn: c.env.NATS.Connect(t, nats.CustomInboxPrefix(inboxes)), env: c.env}
	for range 4 {
		c.push("pq.jobs.push", "x")
	}
	sent := dialer.sentTo(inboxes)
	for _, header := range [][]string{nil, {"PQ-Lease", "1h"}, {"Nats-Msg-Id", "x"}, {"PQ-Bundle", "10"}} {
		if m := c.ask("pq.jobs.pop.min", "", header...); m.Header.Get("Nats-Service-Error") != "" {
			t.Errorf("%v: %v", header, m.Header)
		}
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404)
	if n := dialer.sentTo(inboxes) - sent; n != 5 {
		t.Errorf("5 pops cost %d messages at their reply subjects, expected the answers alone", n)
	}
}

// No item is popped for good to an inbox at which nobody listens, where the bridge's server knows.
func TestPopForNobody(t *testing.T) {
	t.Parallel()
	c := serveAt(t, testenv.NATS(t), true)
	c.push("pq.jobs.push", "x")
	nobody := func(body string, header ...string) {
		t.Helper()
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox(), Data: []byte(body), Header: h(header...)}); err != nil {
			t.Fatal(err)
		}
	}
	nobody("")
	nobody("10")
	nobody("", "PQ-Bundle", "10")
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "x" || c.gonePops() != 3 {
		t.Errorf("%q, %v; %g pops were for nobody", m.Data, m.Header, c.gonePops())
	}
}

// A transaction that several queues share fails for the last of them, and runs again without it. No item is popped for good for a
// client that has gone, whether its pop has waited or not.
func TestGoneBesideAPopThatFails(t *testing.T) {
	for _, waits := range []bool{false, true} {
		t.Run(fmt.Sprintf("waits=%t", waits), func(t *testing.T) {
			eachOwn(t, func(t *testing.T, own bool) {
				if !own && !waits {
					return // such a pop is not asked about
				}
				c, db, push := gateOf(t, own)
				again := []string{"PQ-Lease", "1h", "Nats-Msg-Id", "x"}
				push("fails", 1)
				c.accepted(c.raw(c.pop("pq.fails.pop.min", "", again...).Reply, "+ACK"))
				var leaves []*nats.Subscription
				if waits {
					leaves = c.waitMany(1, "jobs")
					c.waiting("jobs", 1)
				}
				c.inFlight("work", 0)
				open, held := db.close(), db.held.Load()
				first := c.send("pq.held.pop.min", "")
				testenv.Await(t, "a transaction is under way", func() bool { return db.held.Load() > held })
				push("jobs", 1)
				if !waits {
					if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox()}); err != nil {
						t.Fatal(err)
					}
				}
				c.awaitLine(1)
				lost := c.send("pq.fails.pop.min", "", again...)
				c.awaitLine(2)
				shared := db.close()
				open()
				testenv.Await(t, "the bridge has asked about the waiting pop", func() bool { return db.held.Load() > held+1 })
				c.leave(leaves)
				shared()
				c.refused(c.next(first), 404)
				c.refused(c.next(lost), 410)
				testenv.Await(t, "the pop has ended", func() bool { return c.servedPops()+c.gonePops() == 2 }) // with the one that was acknowledged
				if i := c.info("jobs"); i.Ready != 1 || c.gonePops() != 1 {
					t.Errorf("%d items are left, and %g pops were dropped", i.Ready, c.gonePops())
				}
			})
		})
	}
}

// withGate is a store whose transactions begin only when the gate is open.
type withGate struct {
	kv.DB
	mu   sync.Mutex
	gate chan struct{} // nil: it is open
	held atomic.Int64
}

func (g *withGate) Update(ctx context.Context, fn func(kv.Tx) error) error {
	g.mu.Lock()
	gate := g.gate
	g.mu.Unlock()
	if gate != nil {
		g.held.Add(1)
		<-gate
	}
	return g.DB.Update(context.WithoutCancel(ctx), fn)
}

// gateOf starts a bridge whose transactions begin only while a gate is open, and returns how to push past it.
func gateOf(t *testing.T, own bool) (c *client, db *withGate, push func(queue string, items int)) {
	t.Helper()
	base := engine(t)
	return gateOn(t, own, base, base, bridge.Options{Exclusive: true})
}

// gateOn is gateOf on a store that is a way to another one.
func gateOn(t *testing.T, own bool, way, base kv.DB, o bridge.Options) (c *client, db *withGate, push func(queue string, items int)) {
	t.Helper()
	db = &withGate{DB: way}
	env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.OpenStore(t, db, fdbpq.Options{})}
	o = bridge.Patient(o)
	if own {
		o.Interest = env.NATS.Interest
	}
	var err error
	if env.Bridge, err = bridge.Start(t.Context(), env.NATS.Connect(t, bridge.ConnectOptions(nil)...), env.Store, o); err != nil {
		t.Fatal(err)
	}
	bridge.InterestPatience(env.Bridge, testenv.Most)
	bridge.EndMaintenance(env.Bridge)
	c = &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	past, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c, db, func(queue string, items int) {
		session := past.Session()
		defer session.Release()
		err := session.Update(t.Context(), func(tx kv.Tx) error {
			pushed := make([]fdbpq.NewItem, items)
			for i := range pushed {
				pushed[i].Payload = []byte(queue)
			}
			_, err := past.Queue(queue).Push(tx, pushed...)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// close closes the gate until open is called.
func (g *withGate) close() (open func()) {
	gate := make(chan struct{})
	g.mu.Lock()
	g.gate = gate
	g.mu.Unlock()
	return func() {
		g.mu.Lock()
		if g.gate == gate { // it was not closed again
			g.gate = nil
		}
		g.mu.Unlock()
		close(gate)
	}
}

// The transaction that serves waits learns nothing of those whose clients have gone before.
func TestGoneAreDroppedBeforeTheTransaction(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		c, db, push := gateOf(t, own)
		const ghosts = 300
		gone := c.waitMany(ghosts, "jobs", "PQ-Lease", "1h")
		c.waiting("jobs", ghosts)
		c.leave(gone)
		open := db.close()
		held := db.held.Load()
		push("jobs", 1)
		testenv.Await(t, "all are dropped", func() bool { return c.gonePops() == ghosts })
		if n := db.held.Load() - held; n > 0 {
			t.Errorf("%d transactions for nobody", n)
		}
		open()
		c.firstLease(c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h"), "jobs")
	})
}

// Many items arrive at once, for more pops than the bridge asks about before. None of them is for a client that has gone.
func TestGoneAmongMany(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		c, _, push := gateOf(t, own)
		const each = 20
		inbox := c.NewInbox()
		all := c.hear(inbox + ".*")
		live := func() {
			for range each {
				m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: inbox + ".x", Header: h("PQ-Wait", forever, "PQ-Lease", "1h")}
				if err := c.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
		}
		live()
		gone := c.waitMany(each, "jobs", "PQ-Lease", "1h")
		live()
		c.waiting("jobs", 3*each)
		c.leave(gone)
		push("jobs", 2*each)
		for range 2 * each {
			c.firstLease(all, "jobs")
		}
		if c.servedPops() != 2*each || c.gonePops() != each {
			t.Errorf("%g pops were served, %g dropped", c.servedPops(), c.gonePops())
		}
	})
}

// A client leaves after the bridge has asked about it, before the transaction that several queues share. The transaction goes on without it,
// and serves the others.
func TestGoneBeforeTheTransaction(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		c, db, push := gateOf(t, own)
		queues := []string{"a", "b", "c", "d"} // one transaction is under way, and the others share the next one
		leaves := c.waitMany(1, "c")
		waits := make(map[string]answers)
		for _, queue := range queues {
			if queue != "c" {
				waits[queue] = c.send("pq."+queue+".pop.min", "", "PQ-Wait", forever)
			}
		}
		testenv.Await(t, "all wait", func() bool { return c.total() == len(queues) })
		open, held := db.close(), db.held.Load()
		for i, queue := range queues {
			push(queue, 1)
			if i == 0 {
				testenv.Await(t, "a transaction is under way", func() bool { return db.held.Load() > held })
			}
		}
		testenv.Await(t, "three queues are in line", func() bool { return bridge.InLine(c.env.Bridge) == 3 })
		c.leave(leaves)
		open()
		for queue, from := range waits {
			if m := c.next(from); string(m.Data) != queue {
				t.Errorf("%s: %q, %v", queue, m.Data, m.Header)
			}
		}
		if m := c.pop("pq.c.pop.min", ""); string(m.Data) != "c" || c.gonePops() != 1 {
			t.Errorf("%q, %v; %g waits were dropped", m.Data, m.Header, c.gonePops())
		}
	})
}

func (c *client) unseen() float64 { return c.own()["pq_waits_unseen{}"] }

// Somebody listens to all inboxes of the workers. None of them is seen any more from the next sweep on: their waits are short, so that the waits of
// workers that have gone end, and none is refused.
func TestEavesdropper(t *testing.T) {
	eachOwn(t, func(t *testing.T, own bool) {
		for _, subject := range []string{">", "_INBOX.worker.>"} {
			srv := testenv.NATS(t)
			o := bridge.Unseen(chosen(nil), 200*time.Millisecond)
			if own {
				o.Interest = srv.Interest
			}
			c := serveWith(t, srv, o)
			const workers = 100
			worker := &client{TB: t, Conn: srv.Connect(t, nats.CustomInboxPrefix("_INBOX.worker")), env: c.env}
			subs := worker.waitMany(workers, "jobs", "PQ-Lease", "1h")
			c.waiting("jobs", workers)
			spy, err := c.SubscribeSync(subject)
			if err != nil {
				t.Fatal(err)
			}
			worker.leave(subs)
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			if gone := bridge.Sweep(c.env.Bridge, subs[0].Subject); len(gone) > 0 {
				t.Errorf("%v have gone, although somebody listens", gone)
			}
			c.waiting("jobs", 0) // long before their time
			c.push("pq.jobs.push", "x")
			c.firstLease(c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h"), "x")

			// A worker that listens waits, is served, and has to ask again.
			waits := worker.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
			worker.refused(worker.next(waits), 408)
			if err := spy.Unsubscribe(); err != nil {
				t.Fatal(err)
			}
			if err := c.Flush(); err != nil {
				t.Fatal(err)
			}
			bridge.Sweep(c.env.Bridge)
			waits = worker.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
			c.waiting("jobs", 1)
			if n := c.unseen(); n > 0 {
				t.Errorf("%g waits are not seen although nobody listens to all", n)
			}
			c.push("pq.jobs.push", "y")
			if m := c.next(waits); string(m.Data) != "y" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
		}
	})
}

// tenantServer is one with an account whose clients another account serves.
func tenantServer(t *testing.T) *testenv.Server {
	t.Helper()
	return testenv.NATS(t, func(o *server.Options) {
		err := o.ProcessConfigString(`accounts {
			queues { users: [{user: pqd, password: x}], exports: [{service: "pq.>", response_type: stream}] }
			apps { users: [{user: app, password: x}], imports: [{service: {account: queues, subject: "pq.>"}}] }
		}, no_auth_user: pqd`)
		if err != nil {
			t.Fatal(err)
		}
	})
}

// Where the bridge cannot see clients, a pop is served within a short time, or answered 408. None is refused.
func TestUnseenWaitsAreShort(t *testing.T) {
	t.Parallel()
	old := &deafDialer{version: "2.10.29"}
	for name, tc := range map[string]struct {
		at      func(t *testing.T) *testenv.Server
		own     bool
		options []nats.Option // of the bridge
		as      []nats.Option // of the client
	}{
		"another account":               {tenantServer, false, nil, []nats.Option{nats.UserInfo("app", "x")}},
		"another account of one's own":  {tenantServer, true, nil, []nats.Option{nats.UserInfo("app", "x")}},
		"a server that cannot be asked": {func(t *testing.T) *testenv.Server { return testenv.NATS(t) }, false, []nats.Option{nats.SetCustomDialer(old)}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			at := tc.at(t)
			o := bridge.Unseen(chosen(nil), testenv.Times(time.Second))
			if tc.own {
				o.Interest = at.Interest
			}
			c := serveWith(t, at, o, tc.options...)
			app := &client{TB: t, Conn: at.Connect(t, tc.as...), env: c.env}
			for _, option := range [][]string{nil, {"PQ-Lease", "1h"}, {"Nats-Msg-Id", "x"}} {
				waits := app.send("pq.jobs.pop.min", "", append(option, "PQ-Wait", forever)...)
				c.waiting("jobs", 1)
				if n := c.unseen(); n != 1 {
					t.Errorf("%g waits are not seen, expected 1", n)
				}
				c.push("pq.jobs.push", "x")
				if m := app.next(waits); string(m.Data) != "x" {
					t.Errorf("%v: %q, %v", option, m.Data, m.Header)
				}
			}
			begun := time.Now()
			app.refused(app.raw("pq.jobs.pop.min", "", "PQ-Wait", forever), 408)
			if took := time.Since(begun); took < time.Second/4 || c.unseen() != 0 {
				t.Errorf("the wait took %s, %g waits are not seen", took, c.unseen())
			}
			app.refused(app.raw("pq.jobs.pop.min", "", "PQ-Wait", "1ms"), 408)
		})
	}
}

// The limit on waits of clients that the bridge cannot see is told.
func TestUnseenLimit(t *testing.T) {
	t.Parallel()
	c := serve(t)
	limits := object[protocol.System](c, "pq._sys.info", "").Limits
	if limits.WaitUnseen != protocol.Duration(10*time.Second) || limits.Wait != protocol.Duration(protocol.MaxWait) {
		t.Errorf("%+v", limits)
	}
}

// A hundred workers of another account go. The server does not say so, and an item loses one lease at most.
func TestTenantWorkersGo(t *testing.T) {
	t.Parallel()
	srv := tenantServer(t)
	c := serveWith(t, srv, bridge.Unseen(chosen(nil), 500*time.Millisecond))
	worker := &client{TB: t, Conn: srv.Connect(t, nats.UserInfo("app", "x")), env: c.env}
	worker.leave(worker.waitMany(100, "jobs", "PQ-Lease", "2s"))
	c.push("pq.jobs.push", "x")
	m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
	if n := m.Header.Get("PQ-Deliveries"); n != "1" && n != "2" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	if n := c.total(); n > 0 {
		t.Errorf("%d still wait", n)
	}
}
