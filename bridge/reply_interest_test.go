package bridge_test

import (
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// giveUp has clients wait for an item, and stop listening when so many pops wait.
func (c *client) giveUp(clients, waiting int, option ...string) {
	c.Helper()
	var subs []*nats.Subscription
	for range clients {
		sub, err := c.SubscribeSync(c.NewInbox())
		if err != nil {
			c.Fatal(err)
		}
		subs = append(subs, sub)
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: sub.Subject, Header: h(append(option, "PQ-Wait", "100s")...)}); err != nil {
			c.Fatal(err)
		}
	}
	c.waiting("jobs", waiting)
	for _, sub := range subs {
		if err := sub.Unsubscribe(); err != nil {
			c.Fatal(err)
		}
	}
	if err := c.Flush(); err != nil {
		c.Fatal(err)
	}
}

// A new item goes to a client that still listens, and stays in the queue if there is
// none.
func TestGivenUpWaitTakesNoItem(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*testenv.Server) nats.Option{
		"outside":  func(*testenv.Server) nats.Option { return nats.Name("pqd") },
		"embedded": func(s *testenv.Server) nats.Option { return nats.InProcessServer(s.Server()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			testWaiterThatGaveUp(t, option)
		})
	}
}

func testWaiterThatGaveUp(t *testing.T, option func(*testenv.Server) nats.Option) {
	env := &testenv.Bridged{NATS: testenv.NATS(t), Store: testenv.Store(t)}
	nc := env.NATS.Connect(t, append(bridge.ConnectOptions(nil), option(env.NATS))...)
	var err error
	if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, chosen(nil)); err != nil {
		t.Fatal(err)
	}
	bridge.InterestPatience(env.Bridge, testenv.Most)
	c := &client{TB: t, Conn: env.NATS.Connect(t), env: env}
	t.Cleanup(func() { c.drain(env.Bridge) })
	c.giveUp(3, 3)
	c.push("pq.jobs.push", "x")
	c.waiting("jobs", 0)
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "x" {
		t.Errorf("popped %q", m.Data)
	}

	first := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
	c.waiting("jobs", 1)
	c.giveUp(200, 201) // more than are looked at at a time
	last := c.send("pq.jobs.pop.min", "2", "PQ-Wait", "100s")
	c.waiting("jobs", 202)
	for _, body := range []string{"a", "b"} {
		c.push("pq.jobs.push", body)
	}
	if m := c.next(first); string(m.Data) != "a" {
		t.Errorf("the first client got %q, %v", m.Data, m.Header)
	}
	if items := c.batch(last); len(items) != 1 || string(items[0].Data) != "b" {
		t.Errorf("the last client got %v", items)
	}
	c.waiting("jobs", 0)
	ended := func() float64 { return c.own()["pq_requests_total{code=408,verb=pop}"] }
	testenv.AwaitValue(t, "waits that ended without an item", 203, ended)
}

// With UseOldRequestStyle nats.go has an inbox for each request, so a time-out of the
// client ends the wait.
func TestRequestThatTimesOut(t *testing.T) {
	t.Parallel()
	c := serve(t)
	bridge.InterestPatience(c.env.Bridge, testenv.Most)
	late := c.env.NATS.Connect(t, nats.UseOldRequestStyle())
	_, err := late.RequestMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Header: h("PQ-Wait", "100s")}, 10*time.Millisecond)
	if !errors.Is(err, nats.ErrTimeout) {
		t.Fatalf("error %v, want a timeout", err)
	}
	if err := late.Flush(); err != nil { // the end of the subscription has arrived
		t.Fatal(err)
	}
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "x")
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "x" {
		t.Errorf("popped %q", m.Data)
	}
}

// The bridge does not ask about clients in other accounts: the server would forward the
// question in place of the answer.
func TestWaiterInAnotherAccount(t *testing.T) {
	t.Parallel()
	srv := testenv.NATS(t, func(o *server.Options) {
		err := o.ProcessConfigString(`accounts {
			queues { users: [{user: pqd, password: x}], exports: [{service: "pq.>", response_type: stream}, {service: "one.>"}] }
			apps { users: [{user: app, password: x}], imports: [{service: {account: queues, subject: "pq.>"}}] }
			singles { users: [{user: single, password: x}], imports: [{service: {account: queues, subject: "one.>"}, to: "pq.>"}] }
		}`)
		if err != nil {
			t.Fatal(err)
		}
	})
	start := func(prefix string) *client {
		env := &testenv.Bridged{NATS: srv, Store: testenv.Store(t)}
		nc := srv.Connect(t, append(bridge.ConnectOptions(nil), nats.UserInfo("pqd", "x"))...)
		var err error
		if env.Bridge, err = bridge.Start(t.Context(), nc, env.Store, bridge.Options{Prefix: prefix}); err != nil {
			t.Fatal(err)
		}
		c := &client{TB: t, env: env}
		t.Cleanup(func() { c.drain(env.Bridge) })
		return c
	}
	for user, prefix := range map[string]string{"app": "pq", "single": "one"} {
		c := start(prefix)
		c.Conn = srv.Connect(t, nats.UserInfo(user, "x"))
		sub := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s")
		c.waiting("jobs", 1)
		c.push("pq.jobs.push", "x")
		if m := c.next(sub); string(m.Data) != "x" {
			t.Errorf("%s: %q, %v", user, m.Data, m.Header)
		}
	}
}
