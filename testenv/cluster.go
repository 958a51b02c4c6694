package testenv

import (
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// clusterSize is the smallest cluster that survives the loss of a server.
const clusterSize = 3

// nobody is an address that no server listens on: servers announce their addresses to
// each other, and must use the proxies instead.
const nobody = "127.0.0.1:1"

// Cluster is three NATS servers with JetStream inside the test process. Each route
// leads through a proxy, so that a test can cut servers off. JetStream syncs each write.
type Cluster struct {
	Servers []*Server
	routes  []route
	down    [clusterSize]bool
	apart   [clusterSize]bool
}

// route is the way from one server to another one.
type route struct {
	from, to int
	proxy    *Proxy
}

// NewCluster starts a cluster, and waits until it has a leader; that may take a moment
// more to find all servers, until which it makes no stream. Each change may alter the
// options of the servers first.
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
			Cluster:   server.ClusterOpts{Name: "test", Host: "127.0.0.1", Port: server.RANDOM_PORT, Advertise: nobody},
			JetStream: true, StoreDir: t.TempDir(), JetStreamMaxMemory: 64 << 20, JetStreamMaxStore: 4 << 30,
			SyncAlways: true, WriteDeadline: Patience,
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
			r.proxy.aim(s.server.ClusterAddr().String())
		}
	}
}

// URL is where clients connect that can use any server.
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
	c.Servers[i].Shutdown()
}

// Start starts a server that was killed again, at the same address for clients.
func (c *Cluster) Start(t testing.TB, i int) {
	t.Helper()
	c.start(t, i)
	c.down[i] = false
	c.connect()
}

// Isolate cuts a server off the others. Its clients do not notice.
func (c *Cluster) Isolate(i int) {
	c.apart[i] = true
	c.connect()
}

// Join ends what Isolate began.
func (c *Cluster) Join(i int) {
	c.apart[i] = false
	c.connect()
}

// connect lets those servers talk to each other that can.
func (c *Cluster) connect() {
	for _, r := range c.routes {
		r.proxy.block(c.down[r.from] || c.down[r.to] || c.apart[r.from] || c.apart[r.to])
	}
}

// AwaitLeader waits until the servers that run have a leader that makes streams, and
// know it.
func (c *Cluster) AwaitLeader(t testing.TB) {
	t.Helper()
	Await(t, "the cluster has a leader, and all servers know it", func() bool {
		leaders := 0
		for i, s := range c.Servers {
			if c.down[i] || c.apart[i] {
				continue
			}
			if !s.server.JetStreamIsCurrent() {
				return false
			}
			if s.server.JetStreamIsLeader() {
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
			if !c.down[i] && !c.apart[i] && s.server.JetStreamIsStreamLeader(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				leader = i
				return true
			}
		}
		return false
	})
	return leader
}

// AwaitCurrent waits until all servers that run have all of a stream of the global
// account.
func (c *Cluster) AwaitCurrent(t testing.TB, stream string) {
	t.Helper()
	c.StreamLeader(t, stream)
	Await(t, "all servers have all of the stream "+stream, func() bool {
		for i, s := range c.Servers {
			if !c.down[i] && !s.server.JetStreamIsStreamCurrent(server.DEFAULT_GLOBAL_ACCOUNT, stream) {
				return false
			}
		}
		return true
	})
}

// lookEvery is the pause between looks at what has no event.
const lookEvery = 10 * time.Millisecond

// Await polls for a condition without an event, such as a change inside a server.
func Await(t testing.TB, what string, happened func() bool) {
	t.Helper()
	late := time.After(Patience)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for !happened() {
		select {
		case <-look.C:
		case <-late:
			t.Fatalf("after %s it was not true yet that %s", Patience, what)
		}
	}
}
