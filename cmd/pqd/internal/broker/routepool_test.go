package broker

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/testenv"
)

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
