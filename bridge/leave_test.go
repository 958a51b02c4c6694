package bridge_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// moved checks that the bridge itself refused a request, because another one takes over.
func (c *client) moved(answer string) {
	c.Helper()
	if !strings.Contains(answer, "another pqd takes over the store") {
		c.Errorf("%s, expected a refusal by the bridge that leaves", answer)
	}
}

// A bridge that leaves its store to another one answers what is under way, refuses what
// comes, and is subscribed until it drains.
func TestLeave(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	acks := c.leases(2)
	waiting := c.send("pq.others.pop.min", "", "PQ-Wait", "1h")
	c.waiting("others", 1)
	release := db.blockNext()
	pushed := c.send("pq.jobs.push", "under way")
	db.awaitBlocked(t)
	left := make(chan error, 1)
	go func() { left <- c.env.Bridge.Leave(context.Background()) }()
	c.moved(fmt.Sprint(c.refused(c.next(waiting), 503).Header))
	late := c.raw("pq.jobs.push", "too late")
	c.moved(fmt.Sprint(late.Header, string(late.Data)))
	settled := c.send(acks[0], "+ACK") // before what is under way has ended
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	release()
	c.acknowledged(c.next(pushed))
	c.accepted(c.next(settled))
	if err := <-left; err != nil {
		t.Error(err)
	}
	if err := c.env.Bridge.Ready(); err == nil {
		t.Error("ready after it has left")
	}
	c.moved(fmt.Sprint(c.refused(c.raw(acks[1], "+ACK"), 503).Header))
	c.moved(fmt.Sprint(c.refused(c.raw("pq.jobs.pop.min", ""), 503).Header))
	c.drain(c.env.Bridge)
	if m := c.raw("pq.jobs.pop.min", ""); m.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%v, want no responders", m.Header)
	}
}

// A request that is on its way between NATS servers when the store changes hands is
// answered: the bridge that leaves is subscribed until the server knows the next one.
func TestRequestOnItsWayToABridgeThatLeaves(t *testing.T) {
	t.Parallel()
	servers, store := testenv.NewCluster(t), testenv.Store(t)
	const leaves, asks, comes = 0, 1, 2
	first := servers.Servers[leaves].Connect(t)
	endpoint, err := bridge.ServeCluster(first, bridge.ClusterOptions{
		Prefix: "pq", Logger: slog.New(slog.DiscardHandler), Status: func() protocol.Cluster { return protocol.Cluster{} },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer endpoint.Stop()
	old, err := bridge.Start(t.Context(), first, store, bridge.Options{Cluster: endpoint})
	if err != nil {
		t.Fatal(err)
	}
	c := &client{TB: t, Conn: servers.Servers[asks].Connect(t)}
	testenv.Await(t, "the bridge is known", func() bool {
		m := c.raw("pq.jobs.push", "x")
		return m.Header.Get("Status") != "503"
	})
	const epoch = 7
	serves, forget, err := endpoint.Successor(epoch)
	if err != nil {
		t.Fatal(err)
	}
	defer forget()

	release := servers.Hold(asks, leaves)
	asked := c.send("pq.jobs.push", "on its way")
	if err := c.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := old.Leave(t.Context()); err != nil {
		t.Error(err)
	}
	second := servers.Servers[comes].Connect(t)
	next, err := bridge.Start(t.Context(), second, store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.drain(next)
	announce := func(epoch uint64) {
		t.Helper()
		if err := bridge.AnnounceActive(second, "pq", protocol.ActiveEvent{Node: "next", Epoch: epoch}); err != nil {
			t.Fatal(err)
		}
	}
	announce(epoch) // its own
	seen := first.Stats().InMsgs
	testenv.Await(t, "the old word has come", func() bool { return first.Stats().InMsgs > seen })
	select {
	case <-serves:
		t.Error("the bridge that leaves takes its own word for that of the next one")
	default:
	}
	announce(epoch + 1)
	select {
	case <-serves:
	case <-testenv.Late():
		t.Fatal("the next bridge is not noticed")
	}
	c.drain(old)
	release()
	c.acknowledged(c.next(asked))
}
