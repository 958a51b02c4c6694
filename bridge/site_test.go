package bridge_test

import (
	"errors"
	"log/slog"
	"net"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bridge of a site with a name serves the same queues under both prefixes. What it answers
// begins as the request did: the subject that settles a lease leads back to this site.
func TestSite(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{Site: "hub"})
	events := map[string]answers{"pq": c.hear("pq.jobs.event.*"), "hub.pq": c.hear("hub.pq.jobs.event.*")}
	for _, prefix := range []string{"pq", "hub.pq"} {
		c.acknowledged(c.ask(prefix+".jobs.push.1", "x"))
		item := c.ask(prefix+".jobs.pop.min", "", "PQ-Lease", "1m")
		if ack := item.Header.Get("PQ-Ack"); !strings.HasPrefix(ack, prefix+".jobs.ack.") || ack != item.Reply {
			t.Errorf("an item that %s was asked for is settled by %q, and %q", prefix, ack, item.Reply)
		}
		if m := c.ask(item.Reply, "+NXT"); m.Header.Get("Status") != "404" {
			t.Errorf("+NXT: %v", m.Header)
		}
		c.acknowledged(c.ask(prefix+".jobs.push.1", "y"))
		bundle := c.ask(prefix+".jobs.pop.min", "", "PQ-Bundle", "1", "PQ-Lease", "1m")
		one := c.frames(bundle)[0].Header.Get("PQ-Ack")
		if !strings.HasPrefix(bundle.Reply, prefix+".jobs.ack.") || !strings.HasPrefix(one, prefix+".jobs.ack.") {
			t.Errorf("a bundle that %s was asked for is settled by %q, and %q", prefix, bundle.Reply, one)
		}
		if m := c.ask(prefix+".jobs.ack.bundle.settle", one+" +TERM broken", "PQ-Bundle", "1"); m.Header.Get("Status") != "" {
			t.Errorf("the settlement of a bundle: %v %s", m.Header, m.Data)
		}
		for under, heard := range events {
			if m := c.next(heard); m.Subject != under+".jobs.event.dead" {
				t.Errorf("%s", m.Subject)
			}
		}
		// A malformed request is answered in the form of its verb.
		if m := c.ask(prefix+".jobs.push.high", "x"); !strings.Contains(string(m.Data), "push_response") || m.Header.Get("Status") != "" {
			t.Errorf("a malformed push: %v %s", m.Header, m.Data)
		}
		c.refused(c.ask(prefix+".jobs.pop.first", ""), 400)
		c.refused(c.ask(prefix+".jobs.event.dead", ""), 400)
		if m := c.ask(prefix+"._sys.info", ""); !strings.Contains(string(m.Data), `"prefix":"pq","site":"hub",`) {
			t.Errorf("%s", m.Data)
		}
	}
	// A lease is settled under either prefix, and a hand-over may name either.
	c.ask("pq.jobs.admin.config", `{"hand_over":"next"}`)
	c.push("pq.jobs.push", "z")
	item := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	c.acknowledged(c.ask("hub.pq.next.push", "z", "PQ-Settle", item.Reply))
	for _, reply := range []string{"pq.jobs.push", "hub.pq.jobs.push"} {
		if err := c.PublishRequest("pq.jobs.info", reply, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := c.info("jobs").Ready; n != 0 {
		t.Errorf("an answer was pushed: %d items", n)
	}
}

// A site's name is no part of its prefix, and one token.
func TestSiteOptions(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, site := range []string{"a.b", "_a", "q", "a b"} {
		if b, err := bridge.Start(t.Context(), c.env.NATS.Connect(t), c.env.Store, bridge.Options{Prefix: "q", Site: site}); err == nil {
			c.drain(b)
			t.Errorf("a bridge serves the site %q", site)
		}
	}
}

// sides are two servers with a leaf node between them, which keeps the prefix at its side.
func sides(t *testing.T) (hub, edge *testenv.Server) {
	t.Helper()
	return joinedServers(t, "pq.>")
}

// joinedServers are two servers with a leaf node between them, which keeps some subjects at their side.
func joinedServers(t *testing.T, apart ...string) (hub, edge *testenv.Server) {
	t.Helper()
	hub = testenv.NATS(t, func(o *server.Options) { o.LeafNode.Host, o.LeafNode.Port = "127.0.0.1", -1 })
	varz, err := hub.Server().Varz(nil)
	if err != nil {
		t.Fatal(err)
	}
	at := &url.URL{Scheme: "nats-leaf", Host: net.JoinHostPort(varz.LeafNode.Host, strconv.Itoa(varz.LeafNode.Port))}
	edge = testenv.NATS(t, func(o *server.Options) {
		o.LeafNode.Remotes = []*server.RemoteLeafOpts{{URLs: []*url.URL{at}, DenyImports: apart, DenyExports: apart}}
	})
	testenv.Await(t, "the leaf node is connected", func() bool { return hub.Server().NumLeafNodes() == 1 })
	return hub, edge
}

// named starts a bridge with a store of its own at a site.
func named(t *testing.T, srv *testenv.Server, site string) *solo {
	t.Helper()
	s := &solo{store: testenv.Store(t), diary: newDiary()}
	log := slog.New(s.diary)
	s.nc = srv.Connect(t, bridge.ConnectOptions(log)...)
	var err error
	s.bridge, err = bridge.Start(t.Context(), s.nc, s.store, bridge.Options{Site: site, Exclusive: true, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.drain(t) })
	return s
}

// Of two sites with one name the one that started later leaves the name to the other one, and serves its own
// clients all the same. It has the name when the other one has gone.
func TestSitesWithOneName(t *testing.T) {
	t.Parallel()
	hub, edge := sides(t)
	first := named(t, hub, "edge7")
	second := named(t, edge, "edge7")
	if line := second.diary.await(t, "on standby"); !strings.Contains(line, `"edge7.pq"`) || !strings.Contains(line, "PQ_SITE") {
		t.Errorf("logged %s", line)
	}
	for _, s := range []*solo{first, second} {
		if err := s.bridge.Ready(); err != nil {
			t.Error(err)
		}
	}
	here, there := edge.Connect(t), hub.Connect(t)
	storeAt := func(nc *nats.Conn, prefix string) string {
		m, err := nc.Request(prefix+"._sys.info", nil, time.Second)
		if errors.Is(err, nats.ErrTimeout) || errors.Is(err, nats.ErrNoResponders) {
			return ""
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range []*solo{first, second} {
			if strings.Contains(string(m.Data), s.store.ID()) {
				return s.store.ID()
			}
		}
		return ""
	}
	for _, nc := range []*nats.Conn{here, there} {
		testenv.Await(t, "the first one has the name", func() bool { return storeAt(nc, "edge7.pq") == first.store.ID() })
	}
	if got := storeAt(here, "pq"); got != second.store.ID() {
		t.Errorf("the site with the name of another is served by %q", got)
	}
	first.drain(t)
	second.diary.await(t, "serving again")
	testenv.Await(t, "the second one has the name", func() bool { return storeAt(there, "edge7.pq") == second.store.ID() })
}
