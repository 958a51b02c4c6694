package testenv

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// clusterSize is the smallest cluster that survives the loss of a server.
const clusterSize = 3

// unused is an address that no server listens on. The servers announce it to each other
// instead of their own, so that they connect through the proxies alone.
const unused = "127.0.0.1:1"

// Cluster is three NATS servers with JetStream inside the test process. Each route
// leads through a proxy, so that a test can cut servers off. JetStream syncs each write.
type Cluster struct {
	Servers  []*Server
	routes   []route
	down     [clusterSize]bool
	held     [clusterSize]net.Listener // the port of a server that is down
	isolated [clusterSize]bool
}

// route is the way from one server to another one.
type route struct {
	from, to int
	proxy    *Proxy
}

// NewCluster starts a cluster and waits until it has a leader. The leader may not have found
// all servers yet, and until then it makes no stream. Each change may first alter the
// options of the servers.
func NewCluster(t testing.TB, changes ...func(*server.Options)) *Cluster {
	t.Helper()
	c := &Cluster{}
	for from := range clusterSize {
		for to := range clusterSize {
			if from != to {
				c.routes = append(c.routes, route{from: from, to: to, proxy: newProxy(t, "")})
			}
		}
	}
	for i := range clusterSize {
		options := &server.Options{
			ServerName: fmt.Sprintf("n%d", i+1),
			Host:       "127.0.0.1", Port: server.RANDOM_PORT, NoLog: true, NoSigs: true,
			Cluster:   server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: unused},
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
			SyncAlways: true, WriteDeadline: Most,
		}
		for _, r := range c.routes {
			if r.from == i {
				options.Routes = append(options.Routes, &url.URL{Scheme: "nats", Host: r.proxy.listener.Addr().String()})
			}
		}
		for _, change := range changes {
			change(options)
		}
		s := &Server{options: options}
		c.Servers = append(c.Servers, s)
		c.start(t, i)
		t.Cleanup(s.Shutdown)
	}
	c.AwaitLeader(t)
	return c
}

func (c *Cluster) start(t testing.TB, i int) {
	t.Helper()
	s := c.Servers[i]
	s.start(t)
	for _, r := range c.routes {
		if r.to == i {
			r.proxy.aim(s.Server().ClusterAddr().String())
		}
	}
}

// URL is the address of all servers, for clients that use any of them.
func (c *Cluster) URL() string {
	var urls []string
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Kill ends a server without notice, so it hands nothing over.
func (c *Cluster) Kill(t testing.TB, i int) {
	t.Helper()
	c.down[i] = true
	c.connect()
	s := c.Servers[i]
	address := s.Server().Addr().String()
	s.Shutdown()
	// Until Start no other server gets the port: servers that look for each other use up many.
	c.held[i], _ = net.Listen("tcp", address) // without it, Start may fail
	t.Cleanup(func() { c.release(i) })
}

func (c *Cluster) release(i int) {
	if c.held[i] != nil {
		_ = c.held[i].Close() // nobody was there
		c.held[i] = nil
	}
}

// Start starts a server that was killed again, at the same address for clients.
func (c *Cluster) Start(t testing.TB, i int) {
	t.Helper()
	c.release(i)
	c.start(t, i)
	c.down[i] = false
	c.connect()
}

// Isolate cuts a server off the others. Its clients do not notice.
func (c *Cluster) Isolate(i int) {
	c.isolated[i] = true
	c.connect()
}

// Join ends what Isolate began.
func (c *Cluster) Join(i int) {
	c.isolated[i] = false
	c.connect()
}

// Hold keeps the bytes from one server to another on their way until release.
func (c *Cluster) Hold(from, to int) (release func()) {
	var held []*stream
	for _, r := range c.routes {
		for _, l := range r.proxy.all() {
			switch {
			case r.from == from && r.to == to:
				held = append(held, &l.up)
			case r.from == to && r.to == from:
				held = append(held, &l.down)
			}
		}
	}
	for _, s := range held {
		s.hold()
	}
	return func() {
		for _, s := range held {
			s.release()
		}
	}
}

// connect connects all servers that are not cut off with each other.
func (c *Cluster) connect() {
	for _, r := range c.routes {
		r.proxy.Block(c.down[r.from] || c.down[r.to] || c.isolated[r.from] || c.isolated[r.to])
	}
}

// AwaitLeader waits until all running servers are connected with each other and know a
// leader that can make streams.
func (c *Cluster) AwaitLeader(t testing.TB) {
	t.Helper()
	Await(t, "the cluster has a leader, and all servers know it", func() bool {
		if !c.meshed() {
			return false
		}
		leaders := 0
		for i, s := range c.Servers {
			if c.down[i] || c.isolated[i] {
				continue
			}
			if !s.Server().JetStreamIsCurrent() {
				return false
			}
			if s.Server().JetStreamIsLeader() {
				leaders++
			}
		}
		return leaders == 1
	})
}

// StreamLeader waits until a stream of the global account has a leader among the
// servers that are not cut off, and returns which.
func (c *Cluster) StreamLeader(t testing.TB, stream string) (leader int) {
	t.Helper()
	Await(t, "the stream "+stream+" has a leader", func() bool {
		for i, s := range c.Servers {
			if !c.down[i] && !c.isolated[i] && s.Server().JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// meshed reports whether each pair of servers that are not cut off is connected. A server with a connection to all
// others can hide that two of them are not connected: then none of these is elected when the first one goes.
func (c *Cluster) meshed() bool {
	for i, s := range c.Servers {
		if c.down[i] || c.isolated[i] {
			continue
		}
		routes, err := s.Server().Routez(nil)
		if err != nil {
			return false
		}
		count := make(map[string]int)
		for _, r := range routes.Routes {
			count[r.RemoteName]++
		}
		for j, o := range c.Servers {
			// Elections have a route of their own.
			if j != i && !c.down[j] && !c.isolated[j] && count[o.options.ServerName] < 1+server.DEFAULT_ROUTE_POOL_SIZE {
				return false
			}
		}
	}
	return true
}

// AwaitCurrent waits until the running servers are connected with each other, one of them leads a stream of the
// global account, and the leader knows that the others have all of it. What the others say of themselves does not
// count: a former leader takes itself for current until it hears of the new one. So does a server that drops
// entries that were never committed, one every few seconds, in between.
func (c *Cluster) AwaitCurrent(t testing.TB, stream string) {
	t.Helper()
	Await(t, "all servers have all of the stream "+stream, func() bool {
		var leaders []*Server
		running := 0
		for i, s := range c.Servers {
			if c.down[i] {
				continue
			}
			running++
			if s.Server().JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leaders = append(leaders, s)
			}
		}
		return len(leaders) == 1 && c.meshed() && leaders[0].followers(stream) >= running-1
	})
}

// followers counts the servers that have all of a stream, in the eyes of its leader.
func (s *Server) followers(stream string) (current int) {
	all, err := s.Server().Jsz(&server.JSzOptions{Accounts: true, Streams: true})
	if err != nil {
		return 0
	}
	for _, account := range all.AccountDetails {
		for _, detail := range account.Streams {
			if detail.Name != stream || detail.Cluster == nil {
				continue
			}
			for _, replica := range detail.Cluster.Replicas {
				if replica.Current && !replica.Offline && replica.Lag == 0 {
					current++
				}
			}
		}
	}
	return current
}

// The pause between two polls of a condition without an event grows: usually the condition holds at once, and on a
// busy machine polling keeps the processor from the awaited work.
const firstPause, longestPause = time.Millisecond, 20 * time.Millisecond

// Await polls for a condition without an event, such as a change inside a server.
func Await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	late := BeginWait()
	pause := firstPause
	look := time.NewTicker(pause)
	defer look.Stop()
	for !happened() {
		// Not before the look: it may have taken long, and be the look that succeeds.
		if late.Over() {
			patience.Fail(t, "after %s it was not true yet that %s", late, what)
		}
		<-look.C
		pause = min(2*pause, longestPause)
		look.Reset(pause)
	}
}

// AwaitValue is Await for a value, which a failure shows.
func AwaitValue[T comparable](t testing.TB, what string, want T, value func() T) {
	t.Helper()
	var got T
	defer func() {
		if got != want {
			t.Logf("%s: %v, expected %v", what, got, want)
		}
	}()
	Await(t, fmt.Sprintf("%s: %v", what, want), func() bool {
		got = value()
		return got == want
	})
}

// AwaitAnswer is Await for a condition that needs a request to a server. The context of each attempt ends early
// enough for the next one: a server that is not ready yet may leave a request without an answer.
func AwaitAnswer(t testing.TB, what string, says func(ctx context.Context) bool) {
	t.Helper()
	Await(t, what, func() bool {
		ctx, cancel := context.WithTimeout(context.Background(), Attempt())
		defer cancel()
		return says(ctx)
	})
}
