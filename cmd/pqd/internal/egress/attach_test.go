//go:build !noegress

package egress

import (
	"bytes"
	"log/slog"
	"net"
	"net/url"
	"reflect"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// nats-server keeps its routes where this package knows them.
func TestServerKeepsRoutesAsKnown(t *testing.T) {
	t.Parallel()
	if err := Check(); err != nil {
		t.Fatal(err)
	}
}

// A nats-server that keeps its routes in another way is told as one.
func TestServerKeepsRoutesElsewhere(t *testing.T) {
	t.Parallel()
	type outbound struct{}
	srv := reflect.TypeFor[server.Server]()
	client := reflect.TypeOf((*server.Server).GetClient).Out(0).Elem()
	if _, err := placesIn(srv, client); err != nil {
		t.Fatal(err)
	}
	for name, of := range map[string][2]reflect.Type{
		"no server":                   {nil, client},
		"no route":                    {srv, nil},
		"another lock of the server":  {reflect.TypeFor[struct{ mu sync.Mutex }](), client},
		"a lock elsewhere":            {reflect.TypeFor[struct{ *server.Server }](), client},
		"another kind of routes":      {srv, reflect.TypeFor[int]()},
		"routes without a connection": {srv, reflect.TypeFor[struct{ mu sync.RWMutex }]()},
		"another buffer": {srv, reflect.TypeFor[struct {
			mu  sync.RWMutex
			nc  net.Conn
			out outbound
		}]()},
	} {
		if _, err := placesIn(of[0], of[1]); err == nil {
			t.Errorf("%s: it is known", name)
		}
	}
}

// startRouted starts a server that is routed to some others.
func startRouted(t *testing.T, name string, others ...*server.Server) *server.Server {
	t.Helper()
	o := &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT},
	}
	for _, other := range others {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: other.ClusterAddr().String()})
	}
	srv, err := server.NewServer(o)
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(func() {
		srv.Shutdown()
		srv.WaitForShutdown()
	})
	if !srv.ReadyForConnections(time.Minute) {
		t.Fatalf("server %s is not ready", name)
	}
	return srv
}

// routed are two servers with a bridge at the second one, and a client at the first.
type routed struct {
	*testing.T
	servers  [2]*server.Server
	client   *nats.Conn
	requests *nats.Subscription
}

func newRouted(t *testing.T) *routed {
	t.Helper()
	r := &routed{T: t}
	r.servers[0] = startRouted(t, "a")
	r.servers[1] = startRouted(t, "b", r.servers[0])
	connect := func(srv *server.Server) *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	at := connect(r.servers[1])
	r.client = connect(r.servers[0])
	var err error
	if r.requests, err = at.QueueSubscribeSync("pq.>", "pq"); err != nil {
		t.Fatal(err)
	}
	if err := r.requests.SetPendingLimits(-1, -1); err != nil {
		t.Fatal(err)
	}
	if err := at.Flush(); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the first server knows the bridge", func() bool {
		account, err := r.servers[0].LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
		return err == nil && account.Interest("pq.jobs.push") > 0
	})
	return r
}

// filter puts a filter on all routes of the first server.
func (r *routed) filter(sheds func() bool) {
	r.Helper()
	f := &Filter{Server: r.servers[0], Most: 64 << 20, Sheds: sheds, Log: slog.New(slog.DiscardHandler), Requests: Requests{
		Account: server.DEFAULT_GLOBAL_ACCOUNT, Prefixes: []string{"pq."}, Group: "pq", Large: 8 << 10, Instead: mark,
	}}
	testenv.Await(r, "there is a filter on all routes", func() bool {
		attach(f.Server, f.on)
		all, filtered := 0, 0
		attach(f.Server, func(nc net.Conn, _ func() int64) net.Conn {
			all++
			if _, is := nc.(*routeConn); is {
				filtered++
			}
			return nil
		})
		return all == server.DEFAULT_ROUTE_POOL_SIZE && filtered == all
	})
}

func (r *routed) push(data []byte) {
	r.Helper()
	if err := r.client.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: "_INBOX.x", Data: data, Header: nats.Header{"A": {"b"}}}); err != nil {
		r.Error(err)
	}
}

// next is the next request that reaches the bridge.
func (r *routed) next() *nats.Msg {
	r.Helper()
	m, err := r.requests.NextMsg(testenv.Patience())
	if err != nil {
		r.Fatal(err)
	}
	return m
}

// A large request reaches the other server without its content while the active node sheds, in its place among the others, and
// as it was before and afterwards.
func TestFilterOnServers(t *testing.T) {
	t.Parallel()
	r := newRouted(t)
	var sheds atomic.Bool
	r.filter(sheds.Load)
	content := bytes.Repeat([]byte("x"), 200_000)
	for _, shedding := range []bool{false, true, false} {
		sheds.Store(shedding)
		all := [][]byte{[]byte("first"), content, []byte("third")}
		for _, data := range all {
			r.push(data)
		}
		for i, want := range all {
			m := r.next()
			status, header := "", "b"
			if shedding && i == 1 {
				want, status, header = nil, "429", ""
			}
			if !bytes.Equal(m.Data, want) || m.Header.Get("Status") != status || m.Header.Get("A") != header || m.Reply != "_INBOX.x" {
				t.Errorf("shedding: %t: message %d came with %d bytes, headers %v, reply subject %s", shedding, i, len(m.Data), m.Header, m.Reply)
			}
		}
	}
}

// A filter comes while the server sends: all requests arrive, as they were and in their order.
func TestFilterComesInBetween(t *testing.T) {
	t.Parallel()
	r := newRouted(t)
	content := func(i int) []byte { return bytes.Repeat([]byte{byte(i)}, i*7919%300_000) }
	var sent atomic.Int64
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for i := 0; ; i++ {
			r.push(content(i))
			sent.Add(1)
			select {
			case <-stop:
				return
			default:
			}
		}
	}()
	m := r.next() // the server sends
	for range 1000 {
		attach(r.servers[0], func(nc net.Conn, _ func() int64) net.Conn { return nc })
	}
	r.filter(func() bool { return false })
	close(stop)
	<-done
	for i := range int(sent.Load()) {
		if i > 0 {
			m = r.next()
		}
		if want := content(i); !bytes.Equal(m.Data, want) || m.Header.Get("A") != "b" {
			t.Fatalf("message %d has %d bytes, expected %d; headers %v", i, len(m.Data), len(want), m.Header)
		}
	}
}
