package bridge_test

import (
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
	"github.com/pqbridge/pqbridge/testenv"
)

// bridgeAt starts a bridge with a store of its own that connects to url.
func bridgeAt(t *testing.T, srv *testenv.Server, url string) (c *client, nc *nats.Conn) {
	t.Helper()
	nc, err := nats.Connect(url, append(bridge.ConnectOptions(nil), nats.DontRandomize(), nats.Timeout(testenv.Patience()))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	env := &testenv.Bridged{NATS: srv, Store: testenv.Store(t)}
	if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, bridge.Options{}); err != nil {
		t.Fatal(err)
	}
	c = &client{TB: t, Conn: srv.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	return c, nc
}

func await(t testing.TB, came <-chan nats.Status, what string) {
	t.Helper()
	select {
	case <-came:
	case <-testenv.Late():
		patience.Fail(t, "%s: not after %s", what, testenv.Patience())
	}
}

// persistent repeats a request while there are no responders.
func (c *client) persistent(subject, body string) *nats.Msg {
	c.Helper()
	var m *nats.Msg
	testenv.Await(c, subject+" has responders", func() bool {
		m = c.raw(subject, body)
		return m.Header.Get("Status") != "503"
	})
	return m
}

// A bridge stays at a server that is about to stop if it knows no other one.
func TestStaysAtTheOnlyServer(t *testing.T) {
	t.Parallel()
	nc := testenv.NATS(t).Connect(t)
	synctest.Test(t, func(t *testing.T) {
		bridge.Leave(nc)
		<-time.After(time.Minute)
		synctest.Wait()
		if !nc.IsConnected() || nc.Stats().Reconnects > 0 {
			t.Errorf("left the only server: %s", nc.Status())
		}
	})
}

// A bridge leaves a server in lame duck mode before the server closes the connection.
func TestLameDuck(t *testing.T) {
	t.Parallel()
	slow := func(o *server.Options) { o.LameDuckGracePeriod, o.LameDuckDuration = time.Hour, 2*time.Hour }
	stopping, other := testenv.NATS(t, slow), testenv.NATS(t)
	c, nc := bridgeAt(t, other, stopping.URL()+","+other.URL())
	up := nc.StatusChanged(nats.CONNECTED)
	go stopping.Server().LameDuckShutdown()
	await(t, up, "the bridge leaves a server in lame duck mode")
	if url := nc.ConnectedUrl(); url != other.URL() {
		t.Errorf("connected to %s, expected %s", url, other.URL())
	}
	c.acknowledged(c.persistent("pq.jobs.push", "x"))
}

// tap is a connection to a server that can block what the server sends.
type tap struct {
	listener net.Listener
	mu       sync.Mutex
	open     *sync.Cond
	closed   bool
}

func newTap(t *testing.T, to string) *tap {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &tap{listener: listener}
	p.open = sync.NewCond(&p.mu)
	t.Cleanup(func() {
		listener.Close()
		p.set(false)
	})
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("tcp", strings.TrimPrefix(to, "nats://"))
			if err != nil {
				near.Close()
				continue
			}
			go func() {
				io.Copy(far, near)
				far.Close()
			}()
			go func() {
				buffer := make([]byte, 64<<10)
				for {
					n, err := far.Read(buffer)
					p.pass()
					if _, writeErr := near.Write(buffer[:n]); err != nil || writeErr != nil {
						near.Close()
						return
					}
				}
			}()
		}
	}()
	return p
}

func (p *tap) url() string { return "nats://" + p.listener.Addr().String() }

func (p *tap) pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.closed {
		p.open.Wait()
	}
}

func (p *tap) set(closed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = closed
	p.open.Broadcast()
}

// A bridge that the server cut off as a slow consumer connects again and continues.
// Acknowledged items are there.
func TestCutOffAsSlowConsumer(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) { o.MaxPayload, o.MaxPending, o.WriteDeadline = 128<<10, 256<<10, time.Second })
	way := newTap(t, srv.URL())
	c, nc := bridgeAt(t, srv, way.url())
	c.push("pq.jobs.push", "kept")
	up := nc.StatusChanged(nats.CONNECTED)
	way.set(true)
	for flood := make([]byte, 64<<10); srv.Server().NumSlowConsumersClients() == 0; {
		if err := c.Publish("pq.flood.push", flood); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	way.set(false)
	await(t, up, "the bridge connects again")
	if m := c.persistent("pq.jobs.pop.min", ""); string(m.Data) != "kept" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	if err := c.env.Bridge.Ready(); err != nil {
		t.Error(err)
	}
}

// leaseUnread is a client that leases n jobs and does not read the answers, until the server cuts it off. Others do
// something meanwhile, again and again.
func leaseUnread(t *testing.T, srv *testenv.Server, n int, lease string, meanwhile func()) {
	t.Helper()
	slow, err := net.Dial("tcp", strings.TrimPrefix(srv.URL(), "nats://"))
	if err != nil {
		t.Fatal(err)
	}
	defer slow.Close()
	slow.(*net.TCPConn).SetReadBuffer(4096)
	text := `CONNECT {"verbose":false,"headers":true,"no_responders":true}` + "\r\nSUB _INBOX.slow 1\r\n"
	head := "NATS/1.0\r\nPQ-Lease: " + lease + "\r\n\r\n"
	for range n {
		text += fmt.Sprintf("HPUB pq.jobs.pop.min _INBOX.slow %d %d\r\n%s\r\n", len(head), len(head), head)
	}
	if _, err := io.WriteString(slow, text); err != nil {
		t.Fatal(err)
	}
	for end := testenv.BeginWait(); srv.Server().NumSlowConsumersClients() == 0; {
		meanwhile()
		if end.Over() {
			t.Fatal("the server does not cut off a client that does not read")
		}
	}
}

// A client that does not read its answers is cut off by the server. The bridge does not
// wait for it, serves others, and its leased items return.
func TestClientThatDoesNotRead(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) { o.MaxPending, o.WriteDeadline = 4<<20, time.Second })
	c, nc := bridgeAt(t, srv, srv.URL())
	const n = 200 // more than the server holds back, and the system's buffers
	for i := range n {
		c.push("pq.jobs.push", strconv.Itoa(i)+string(make([]byte, 64<<10)))
	}
	leaseUnread(t, srv, n, "2s", func() {
		c.push("pq.other.push", "x")
		c.pop("pq.other.pop.min", "")
	})
	if nc.Stats().Reconnects != 0 {
		t.Error("the bridge was cut off too")
	}
	seen := make(map[string]bool)
	for len(seen) < n {
		m := c.ask("pq.jobs.pop.min", "", "PQ-Wait", "10s")
		if m.Header.Get("PQ-Id") == "" {
			t.Fatalf("%d of %d came back: %v", len(seen), n, m.Header)
		}
		if seen[m.Header.Get("PQ-Id")] {
			t.Errorf("%s was delivered twice", m.Header.Get("PQ-Id"))
		}
		seen[m.Header.Get("PQ-Id")] = true
	}
}

// A server may return with a smaller max_payload. A pop of an item that no longer fits is
// refused and the item stays; others are served.
func TestSmallerMaxPayload(t *testing.T) {
	t.Parallel()
	c := serve(t)
	large := c.push("pq.jobs.push.1", string(make([]byte, 200_000)))
	c.push("pq.jobs.push.2", "small")
	limit := func(n int32) {
		t.Helper()
		up := c.StatusChanged(nats.CONNECTED)
		c.env.NATS.Restart(t, func(o *server.Options) { o.MaxPayload = n })
		await(t, up, "the client connects again")
		c.persistent("pq.jobs.info", "")
	}
	limit(64 << 10)
	for _, verb := range []string{"pop.min", "peek.min", "get." + large.ID} {
		if m := c.refused(c.ask("pq.jobs."+verb, ""), 413); !strings.Contains(m.Header.Get("Nats-Service-Error"), large.ID) {
			t.Errorf("%s: %v", verb, m.Header)
		}
	}
	c.refused(c.ask("pq.jobs.push", string(make([]byte, 64<<10))), 413)
	c.push("pq.jobs.push.3", string(make([]byte, 60<<10)))
	if p := object[page](c, "pq.jobs.list", `{"bodies":true}`); len(p.Items) == 0 || p.Items[0].ID != large.ID || p.Items[0].Body != nil {
		t.Errorf("%+v", p)
	}
	if m := c.pop("pq.jobs.pop.max", ""); len(m.Data) != 60<<10 {
		t.Errorf("popped %d bytes", len(m.Data))
	}
	if m := c.pop("pq.jobs.pop.max", ""); string(m.Data) != "small" {
		t.Errorf("popped %d bytes", len(m.Data))
	}
	limit(1 << 20)
	if m := c.pop("pq.jobs.pop.min", ""); len(m.Data) != 200_000 || m.Header.Get("PQ-Id") != large.ID {
		t.Errorf("popped %d bytes, %v", len(m.Data), m.Header)
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "empty")
}

// A repeated batch whose items do not fit any more is refused, because it has to answer
// all items of the first attempt. Others are served.
func TestRepeatedBatchOnSmallerMaxPayload(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, queue := range []string{"plain", "leased"} {
		c.push("pq."+queue+".push.1", "small")
		c.push("pq."+queue+".push.2", string(make([]byte, 200_000)))
		c.push("pq."+queue+".push.3", "behind")
	}
	batch := func(queue string, header ...string) answers {
		t.Helper()
		header = append(header, "PQ-Batch", "2", "Nats-Msg-Id", "1")
		if queue == "leased" {
			header = append(header, "PQ-Lease", "1h")
		}
		return c.send("pq."+queue+".pop.min", "", header...)
	}
	for _, queue := range []string{"plain", "leased"} {
		if items := c.batch(batch(queue)); len(items) != 2 {
			t.Fatalf("%d items", len(items))
		}
	}
	limit := func(n int32) {
		t.Helper()
		up := c.StatusChanged(nats.CONNECTED)
		c.env.NATS.Restart(t, func(o *server.Options) { o.MaxPayload = n })
		await(t, up, "the client connects again")
		c.persistent("pq.plain.info", "")
	}
	limit(64 << 10)
	for _, queue := range []string{"plain", "leased"} {
		for _, repeat := range []string{"false", "true"} {
			c.refused(c.next(batch(queue, "PQ-Repeat", repeat)), 413)
		}
		if m := c.pop("pq."+queue+".pop.min", ""); string(m.Data) != "behind" {
			t.Errorf("popped %q", m.Data)
		}
	}
	limit(1 << 20)
	for _, queue := range []string{"plain", "leased"} {
		if items := c.batch(batch(queue, "PQ-Repeat", "true")); len(items) != 2 {
			t.Errorf("%d items of the first pop of %s", len(items), queue)
		}
	}
}
