package broker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// startRouted starts a server that is routed to some others.
func startRouted(t *testing.T, name string, others ...string) *server.Server {
	t.Helper()
	o := &server.Options{
		ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
		Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT},
	}
	for _, other := range others {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: other})
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

// awaitRoute waits for a route.
func awaitRoute(t *testing.T, srv *server.Server, to string) {
	t.Helper()
	look := time.NewTicker(time.Millisecond)
	defer look.Stop()
	for r := (&Routes{Server: srv, Peers: map[string]string{to: ""}}); ; <-look.C {
		if has, err := r.connected(); err != nil {
			t.Fatal(err)
		} else if has[to] {
			return
		}
		if t.Context().Err() != nil {
			t.Fatalf("there is no route to %s", to)
		}
	}
}

// A server ends, and refuses connections: the others know. A server that was never there refuses nothing.
func TestRouteToAServerThatEnds(t *testing.T) {
	t.Parallel()
	a := startRouted(t, "a")
	b := startRouted(t, "b", a.ClusterAddr().String())
	awaitRoute(t, a, "b")
	var refused []string
	r := &Routes{Server: a, Peers: map[string]string{"b": b.ClusterAddr().String(), "c": "127.0.0.1:1"}, Refused: func(name string) { refused = append(refused, name) }}
	r.look(t.Context())
	if len(refused) > 0 {
		t.Fatalf("%v refuse, and run", refused)
	}
	b.Shutdown()
	for look := time.NewTicker(time.Millisecond); len(refused) == 0; <-look.C {
		r.look(t.Context())
	}
	if refused[0] != "b" {
		t.Errorf("%v refuse, expected b", refused)
	}
	if r.missing || len(r.seen) > 0 {
		t.Errorf("it is known that b refuses, and b is asked again: %v", r.seen)
	}
}

// A route ends while the node's machine takes connections: the node has not ended.
func TestRouteToAServerThatListens(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	a := startRouted(t, "a")
	b := startRouted(t, "b", a.ClusterAddr().String())
	awaitRoute(t, a, "b")
	r := &Routes{Server: a, Peers: map[string]string{"b": listener.Addr().String()}, Refused: func(string) { t.Error("a machine refuses, and listens") }}
	r.look(t.Context())
	b.Shutdown()
	for look := time.NewTicker(time.Millisecond); !r.missing; <-look.C {
		r.look(t.Context())
	}
	r.seen["b"] = time.Now().Add(-2 * refusesWithin)
	r.listed = time.Time{}
	if r.look(t.Context()); r.missing {
		t.Error("a node whose route does not come back is asked for ever")
	}
}

// A machine that does not answer refuses nothing.
func TestSilenceIsNoRefusal(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := &Routes{Peers: map[string]string{"b": "127.0.0.1:1"}}
	if r.refuses(ctx, "b") {
		t.Error("a connection that was not tried is refused")
	}
	if !strings.Contains(r.Peers["b"], ":1") || !r.refuses(t.Context(), "b") {
		t.Error("a port on which nobody listens does not refuse")
	}
}

// The account of the log has a connection for itself between two servers, also where one of them has another number of
// connections, as an earlier version. With many accounts it shares one with the fewest.
func TestLogHasARouteForItself(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		accounts []string // besides the global one
		other    int      // connections of the other server; 0: the same
		alone    bool
	}{
		{"the global account", nil, 0, true},
		{"the global account, beside an earlier version", nil, server.DEFAULT_ROUTE_POOL_SIZE, false},
		{"accounts", []string{"PQ", "CLIENTS", "A"}, 0, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			names := append([]string{server.DEFAULT_GLOBAL_ACCOUNT, logAccount}, c.accounts...)
			var servers []*server.Server
			for i, name := range []string{"a", "b"} {
				o := &server.Options{
					ServerName: name, Host: "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
					Cluster: server.ClusterOpts{Name: "c", Host: "127.0.0.1", Port: server.RANDOM_PORT},
				}
				for _, account := range names {
					a := server.NewAccount(account)
					o.Accounts = append(o.Accounts, a)
					o.Users = append(o.Users, &server.User{Username: account, Password: "p", Account: a})
				}
				o.Cluster.PoolSize = routePool(logAccount, o.Accounts)
				if i == 1 {
					if c.other > 0 {
						o.Cluster.PoolSize = c.other
					}
					o.Routes = []*url.URL{{Scheme: "nats-route", Host: servers[0].ClusterAddr().String()}}
				}
				srv, err := server.NewServer(o)
				if err != nil {
					t.Fatal(err)
				}
				srv.Start()
				t.Cleanup(srv.Shutdown)
				if !srv.ReadyForConnections(time.Minute) {
					t.Fatal("a server is not ready")
				}
				servers = append(servers, srv)
			}
			for _, account := range names {
				nc, err := nats.Connect("", nats.InProcessServer(servers[1]), nats.UserInfo(account, "p"), nats.Timeout(testenv.Patience()))
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(nc.Close)
				if _, err := nc.SubscribeSync("of." + account); err != nil {
					t.Fatal(err)
				}
			}
			var routes map[string]uint64 // by account: the connection that has its subscription
			testenv.Await(t, "the other server knows all subscriptions", func() bool {
				all, err := servers[0].Routez(&server.RoutezOptions{SubscriptionsDetail: true})
				if err != nil {
					t.Fatal(err)
				}
				routes = make(map[string]uint64)
				for _, r := range all.Routes {
					for _, sub := range r.SubsDetail {
						if account, is := strings.CutPrefix(sub.Subject, "of."); is {
							routes[account] = r.Rid
						}
					}
				}
				return len(routes) == len(names)
			})
			for account, id := range routes {
				if shared := id == routes[logAccount]; account != logAccount && c.alone && shared {
					t.Errorf("account %s shares a connection with the log", account)
				}
			}
		})
	}
	var many []*server.Account
	for i := range 1000 {
		many = append(many, server.NewAccount(fmt.Sprint("T", i)))
	}
	if size := routePool(logAccount, many); size < server.DEFAULT_ROUTE_POOL_SIZE || size > mostRoutes {
		t.Errorf("with 1000 accounts there are %d connections", size)
	}
}

// A node has as many connections as keep the log apart from its file's accounts: by FNV-1a of their names, with 4 connections
// $G takes number 0, and PQ_CLUSTER and CLIENTS take 3; with 5 $G takes 3, PQ_CLUSTER 2 and CLIENTS 1.
func TestNodesKeepTheLogApart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) settings.ExistingFile {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return settings.ExistingFile(path)
	}
	secret := write("secret", strings.Repeat("s", 32))
	for name, c := range map[string]struct {
		file string
		want int
	}{
		"without accounts": {"", 4},
		"with accounts":    {"accounts { CLIENTS { users: [{user: c, password: c}] } }", 5},
	} {
		s := settings.Settings{Listen: settings.Address{Host: "127.0.0.1", Port: server.RANDOM_PORT}, Node: "127.0.0.1", Secret: secret}
		if err := s.Cluster.Decode("127.0.0.1,127.0.0.2,127.0.0.3"); err != nil {
			t.Fatal(err)
		}
		if c.file != "" {
			s.NATSConfig = write("nats.conf", c.file)
		}
		e, err := readServerOptions(s)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Options.Cluster.PoolSize; got != c.want {
			t.Errorf("%s: %d connections, expected %d", name, got, c.want)
		}
	}
}

// The filter on routes looks for requests to the bridge: in its account, under its prefixes, for its queue group. It replaces
// those that the bridge's own filter would, by the same mark.
func TestEgressIsForTheBridge(t *testing.T) {
	t.Parallel()
	own := server.NewAccount("OWN")
	srv, err := server.NewServer(&server.Options{
		DontListen: true, NoSigs: true, NoLog: true, MaxPending: 16 << 20,
		Accounts: []*server.Account{own}, Users: []*server.User{{Username: "o", Password: "o", Account: own}, {Username: "g", Password: "g"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	srv.Start()
	t.Cleanup(srv.Shutdown)
	plain, err := subjects.New("a.b")
	if err != nil {
		t.Fatal(err)
	}
	atSite, err := plain.AtSite("hub")
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	for user, want := range map[string]egress.Requests{
		"g": {Account: "$G", Prefixes: []string{"a.b."}, Group: "pq", Large: 8192, Instead: bridge.TooManyBytes},
		"o": {Account: "OWN", Prefixes: []string{"a.b.", "hub.a.b."}, Group: "pq", Large: 8192, Instead: bridge.TooManyBytes},
	} {
		nc, err := nats.Connect("", nats.InProcessServer(srv), nats.UserInfo(user, user), nats.Timeout(testenv.Patience()))
		if err != nil {
			t.Fatal(err)
		}
		defer nc.Close()
		grammar := plain
		if user == "o" {
			grammar = atSite
		}
		f, err := newEgress(srv, grammar, nc.GetClientID, func() bool { return user == "o" }, log)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(f.Requests, want) || f.Most != 1<<20 || f.Sheds() != (user == "o") || f.Server != srv || f.Log != log {
			t.Errorf("user %s: the filter looks for %+v beyond %d bytes, expected %+v beyond %d", user, f.Requests, f.Most, want, 1<<20)
		}
	}
	if _, err := newEgress(srv, plain, func() (uint64, error) { return 4711, nil }, nil, log); !errors.Is(err, nats.ErrConnectionClosed) {
		t.Errorf("a connection that the server does not have: %v", err)
	}
}
