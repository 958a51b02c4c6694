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
		"a lock elsewhere":            {reflect.TypeFor[struct{ lock struct{ mu sync.RWMutex } }](), client},
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

// A filter is on all routes for clients. A large request reaches the other server without its content while the active node
// sheds, in its place among the others, and as it was before and afterwards.
func TestFilterOnServers(t *testing.T) {
	t.Parallel()
	a := startRouted(t, "a")
	b := startRouted(t, "b", a)
	connect := func(srv *server.Server) *nats.Conn {
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		return nc
	}
	at, client := connect(b), connect(a)
	requests, err := at.QueueSubscribeSync("pq.>", "pq")
	if err != nil {
		t.Fatal(err)
	}
	if err := at.Flush(); err != nil {
		t.Fatal(err)
	}
	testenv.Await(t, "the interest of the other server", func() bool {
		account, err := a.LookupAccount(server.DEFAULT_GLOBAL_ACCOUNT)
		return err == nil && account.Interest("pq.jobs.push") > 0
	})
	var sheds atomic.Bool
	f := &Filter{Server: a, Most: 64 << 20, Sheds: sheds.Load, Log: slog.New(slog.DiscardHandler), Requests: Requests{
		Account: server.DEFAULT_GLOBAL_ACCOUNT, Prefixes: []string{"pq."}, Group: "pq", Large: 8 << 10, Instead: mark,
	}}
	count := func() (all, filtered int) {
		attach(a, func(nc net.Conn, _ func() int64) net.Conn {
			all++
			if _, is := nc.(*routeConn); is {
				filtered++
			}
			return nil
		})
		return all, filtered
	}
	testenv.Await(t, "the filter on all routes", func() bool {
		attach(a, f.on)
		all, filtered := count()
		return all == server.DEFAULT_ROUTE_POOL_SIZE && filtered == all
	})
	content := bytes.Repeat([]byte("x"), 200_000)
	for _, shedding := range []bool{false, true, false} {
		sheds.Store(shedding)
		for _, data := range [][]byte{[]byte("first"), content, []byte("third")} {
			if err := client.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Reply: "_INBOX.x", Data: data, Header: nats.Header{"A": {"b"}}}); err != nil {
				t.Fatal(err)
			}
		}
		for i, want := range [][]byte{[]byte("first"), content, []byte("third")} {
			m, err := requests.NextMsg(testenv.Patience())
			if err != nil {
				t.Fatal(err)
			}
			status, header := "", "b"
			if shedding && i == 1 {
				want, status, header = nil, "429", ""
			}
			if !bytes.Equal(m.Data, want) || m.Header.Get("Status") != status || m.Header.Get("A") != header || m.Reply != "_INBOX.x" {
				t.Errorf("shedding: %t: message %d came with %d bytes, status %q, headers %v, reply subject %s", shedding, i, len(m.Data), m.Header.Get("Status"), m.Header, m.Reply)
			}
		}
	}
}
