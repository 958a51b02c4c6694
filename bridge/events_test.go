package bridge_test

import (
	"testing"

	"github.com/nats-io/nats.go"
)

// lose sends pushes that are refused and have nowhere to be answered.
func (c *client) lose(n int) {
	c.Helper()
	for range n {
		if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.push", Header: h("PQ-Delay", "soon")}); err != nil {
			c.Fatal(err)
		}
	}
}

// Pushes that were lost shortly before the bridge ends are reported before it does.
func TestLostPushesAreReportedAtTheEnd(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.error")
	const n = 500
	c.lose(n)
	c.refused(c.ask("pq.jobs.info", ""), 404) // behind them
	c.drain(c.env.Bridge)
	if err := c.Flush(); err != nil { // what the bridge has sent by now has arrived
		t.Fatal(err)
	}
	reported := 0
	for len(events.came) > 0 {
		var event struct{ Count int }
		decode(t, c.next(events).Data, &event)
		reported += event.Count
	}
	if reported != n {
		t.Errorf("%d lost pushes were reported before the bridge had ended, expected %d", reported, n)
	}
}

// The item that a full queue gives up for another one is an event.
func TestEvictionIsAnEvent(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.>")
	c.ask("pq.jobs.admin.config", `{"max_length":1,"overflow":"evict"}`)
	ack := c.push("pq.jobs.push.5", "x")
	c.push("pq.jobs.push.1", "y")
	m := c.next(events)
	var event struct{ Type, ID string }
	decode(t, m.Data, &event)
	if m.Subject != "pq.jobs.event.evicted" || event.ID != ack.ID {
		t.Errorf("%s: %s", m.Subject, m.Data)
	}
}
