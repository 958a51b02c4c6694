package bridge_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/nightly"
	"github.com/pqbridge/pqbridge/testenv"
)

// A bridge that sheds load refuses a push on inboxes only, like every request.
func TestSheddingAnswersInboxesOnly(t *testing.T) {
	t.Parallel()
	c := serve(t)
	refuse := func(reply string) {
		t.Helper()
		if err := bridge.RefuseUnread(c.env.Bridge, c.env.Store.ID(), &nats.Msg{Subject: "pq.jobs.push", Reply: reply}); err != nil {
			t.Fatal(err)
		}
	}
	heard := c.hear(">")
	inbox := c.listen()
	if err := c.Flush(); err != nil { // before the bridge publishes on its own connection
		t.Fatal(err)
	}
	for _, reply := range []string{"", "orders.new", "pq.safe.admin.purge", "_INBOXES.x", "_INBOX." + c.env.Store.ID() + ".take.jobs"} {
		refuse(reply)
	}
	refuse(inbox.inbox)
	if m := c.next(inbox); m.Header.Get("Nats-Service-Error-Code") != "503" || len(m.Data) > 0 {
		t.Errorf("answer %v, %q: expected 503 and no body", m.Header, m.Data)
	}
	// The bridge has published in this order, and on one connection.
	for {
		m := c.next(heard)
		if m.Subject == inbox.inbox {
			break
		}
		if !strings.HasPrefix(m.Subject, "pq.jobs.event.error") {
			t.Errorf("heard %v on %s", m.Header, m.Subject)
		}
	}
}

// While the bridge handles nothing, a tenant's messages beyond those in line are refused unread, whatever they are, and say
// so as clients understand it. Other tenants are served, and no load is shed.
func TestFloodOfTenant(t *testing.T) {
	t.Parallel()
	g := &gated{entered: make(chan struct{}, 1), open: make(chan struct{})}
	c := serve(t, bridge.Options{Tracer: g, Exclusive: true, Tenants: func(string) bridge.Quotas { return bridge.Quotas{} }})
	held := c.send("pq.held.jobs.push.x", "")
	select {
	case <-g.entered:
	case <-testenv.Late():
		t.Fatal("the callback was not reached")
	}
	const room = 4096
	sub := c.listen()
	for range room {
		if err := c.PublishRequest("pq.flood.jobs.info", sub.inbox, nil); err != nil {
			t.Fatal(err)
		}
	}
	statuses := map[string]string{"info": "429", "nonsense": "429", "ack.a.b": "503", "push": "", "push.high": ""}
	refused := make(map[string]answers) // they come after a while
	for subject := range statuses {
		refused[subject] = c.send("pq.flood.jobs."+subject, strings.Repeat("x", 1<<19))
	}
	long := c.send("pq.flood.jobs.push", "", "A", strings.Repeat("x", 66_000))
	for subject, status := range statuses {
		m := c.refused(c.next(refused[subject]), 429, "busy")
		if got := m.Header.Get("Status"); got != status {
			t.Errorf("%s: status %q, expected %q", subject, got, status)
		}
		if strings.HasPrefix(subject, "push") && !strings.Contains(string(m.Data), `"code":429`) {
			t.Errorf("%s: %s", subject, m.Data)
		}
	}
	c.refused(c.next(long), 429, "busy")
	events := c.hear("pq.flood.jobs.event.error")
	if err := c.Publish("pq.flood.jobs.push.high", nil); err != nil {
		t.Fatal(err)
	}
	if m := c.next(events); !strings.Contains(string(m.Data), `"code":429`) {
		t.Errorf("event %s", m.Data)
	}
	neighbour := c.send("pq.calm.jobs.push", "x")
	if err := c.Publish("pq.flood.jobs.push", nil); err != nil { // which is refused behind it
		t.Fatal(err)
	}
	c.next(events)
	close(g.open)
	c.acknowledged(c.next(neighbour))
	c.refused(c.next(held), 400)
	for range room {
		c.refused(c.next(sub), 404)
	}
	registry := c.registry()
	if n := metric(t, registry, "pq_load_shedding_total"); n > 0 {
		t.Errorf("the bridge shed load %v times", n)
	}
	if got := unread(t, registry); got["flood"] != 8 || got["calm"] != 0 {
		t.Errorf("unread are %v", got)
	}
}

// A tenant that sends more than twice its rate, and far too many at all, floods the bridge.
func TestFloodBeyondRate(t *testing.T) {
	nightly.Only(t, "TestFloods says who floods, and TestFloodOfTenant what becomes of a flood")
	t.Parallel()
	c, rate := withRate(t)
	rate.becomes(10)
	registry, sub := c.registry(), c.listen()
	for late := testenv.BeginWait(); unread(t, registry)["flood"] == 0; {
		if late.Over() {
			t.Fatal("all messages are read")
		}
		for _, subject := range []string{"info", "nonsense", "ack.a.b"} {
			for range 500 {
				if err := c.PublishRequest("pq.flood.jobs."+subject, sub.inbox, nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		for range 1500 {
			c.next(sub) // each is answered
		}
	}
	c.push("pq.calm.jobs.push", "x")
	if n := unread(t, registry)["calm"]; n > 0 {
		t.Errorf("%v messages of another tenant are refused unread", n)
	}
}

// unread are the messages of tenants that were refused unread.
func unread(t *testing.T, registry *prometheus.Registry) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]float64)
	for _, f := range families {
		if f.GetName() == "pq_tenant_unread_total" {
			for _, m := range f.Metric {
				found[m.Label[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return found
}

// Refusals are sent in their order, a few before the server has got those before.
func TestRefusals(t *testing.T) {
	t.Parallel()
	const many, atOnce = 4096, 32
	flushed, done := 0, make(chan struct{})
	do, _ := bridge.NewRefusals(func() { flushed++ })
	entered, open := make(chan struct{}), make(chan struct{})
	do(func() {
		close(entered)
		<-open
	})
	<-entered
	var sent []int
	for i := range many {
		do(func() { sent = append(sent, i) })
	}
	do(func() { close(done) })
	close(open)
	select {
	case <-done:
	case <-testenv.Late():
		t.Fatal("not all are sent")
	}
	for i, n := range sent {
		if i != n {
			t.Fatalf("number %d is sent as number %d", n, i)
		}
	}
	if len(sent) != many || flushed != many/atOnce {
		t.Errorf("%d are sent, and %d times the server had them", len(sent), flushed)
	}
}

// A refusal of what was not read is sent after a pause. Those without room are left out.
func TestRefusalsAfterAPause(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const pause, room = 2 * time.Second, 100
		_, after := bridge.NewRefusals(func() {})
		var sent atomic.Int64
		for round := range 2 {
			sent.Store(0)
			for range room + 10 {
				after(pause, room, func() { sent.Add(1) })
			}
			<-time.After(pause - 1)
			early := sent.Load()
			<-time.After(1)
			synctest.Wait()
			if got := sent.Load(); early != 0 || got != room {
				t.Errorf("round %d: %d are sent before the pause is over, and %d in all", round, early, got)
			}
		}
	})
}
