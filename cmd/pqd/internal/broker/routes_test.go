package broker

import (
	"context"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
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
