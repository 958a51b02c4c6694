package bridge_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

func (c *client) revoked(id, body string) (done protocol.Revoked) {
	c.Helper()
	m := c.raw("pq.jobs.revoke."+id, body)
	if err := json.Unmarshal(m.Data, &done); err != nil {
		c.Fatalf("revoke: %v, %s", m.Header, m.Data)
	}
	return done
}

// An administrator takes a lease away. Its holder has lost it for good: nothing that it says takes
// effect, not even an acknowledgement of an item that nobody has leased since.
func TestRevokedLeaseIsTaken(t *testing.T) {
	t.Parallel()
	c := serve(t)
	events := c.hear("pq.jobs.event.revoked")
	m := c.lease("x", "PQ-Holder", "w1")
	id := m.Header.Get("PQ-Id")
	c.refused(c.raw("pq.jobs.revoke."+id, `{"fence":2}`), 400, "")
	if done := c.revoked(id, `{"fence":1,"reason":"it hangs"}`); done != (protocol.Revoked{ID: id, State: "ready", Deliveries: 1}) {
		t.Errorf("revoked: %+v", done)
	}
	var e protocol.ItemEvent
	if err := json.Unmarshal(c.next(events).Data, &e); err != nil || e.ID != id || e.Holder != "w1" || e.Reason != "it hangs" || e.Deliveries != 1 || !e.NotBefore.IsZero() {
		t.Errorf("the event says %+v, %v", e, err)
	}
	for _, words := range []string{"+WPI", "+ACK", "", "-NAK", "+TERM", "+NXT"} {
		c.lost(c.raw(m.Reply, words), "taken")
	}
	c.refused(c.raw("pq.jobs.revoke."+id, `{"fence":1}`), 410, "taken")
	c.refused(c.raw("pq.jobs.revoke."+id, `{"fence":2}`), 409, "not_leased") // no lease has it
	if refused := c.refused(c.raw("pq.jobs.revoke."+id, ""), 409, "not_leased"); refused.Header.Get("Description") != "Not Leased" {
		t.Errorf("%v", refused.Header)
	}
	next := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if next.Header.Get("PQ-Fence") != "3" || next.Header.Get("PQ-Deliveries") != "2" {
		t.Errorf("the next lease has %v", next.Header)
	}
	if done := c.revoked(id, `{"delay":"1h"}`); done.State != "delayed" {
		t.Errorf("revoked: %+v", done)
	}
	if err := json.Unmarshal(c.next(events).Data, &e); err != nil || e.NotBefore.IsZero() {
		t.Errorf("the event says %+v, %v", e, err)
	}
	if n := c.queueCount("revoked_total", "jobs"); n != 2 {
		t.Errorf("%v leases are counted as revoked", n)
	}
	c.ask("pq.jobs.admin.purge", "")
	c.refused(c.raw("pq.jobs.revoke."+id, ""), 404, "unknown")
}

// Each fence that a lease has can be revoked.
func TestRevokeOfTheHighestFence(t *testing.T) {
	t.Parallel()
	c := serve(t)
	id := c.push("pq.other.push", "x").ID
	c.acknowledged(c.ask("pq.jobs.import", "x", "PQ-Id", id, "PQ-Fence", "4611686018427387904"))
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if done := c.revoked(id, `{"fence":`+m.Header.Get("PQ-Fence")+`}`); done.State != "ready" {
		t.Errorf("revoked: %+v", done)
	}
}

// An item whose TTL has ended dies when its lease is revoked, where such items die.
func TestRevokePastTheTTL(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"dead_letter_expired":true}`)
	dead := c.hear("pq.jobs.event.dead")
	for ttl := 100 * time.Millisecond; ; ttl *= 2 {
		c.push("pq.jobs.push", "x", "PQ-TTL", ttl.String())
		m := c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1h")
		if m.Header.Get("PQ-Id") == "" { // a slow machine
			continue
		}
		id := m.Header.Get("PQ-Id")
		expires, err := time.Parse(time.RFC3339Nano, c.ask("pq.jobs.get."+id, "").Header.Get("PQ-Expires"))
		if err != nil {
			t.Fatal(err)
		}
		for time.Now().Before(expires.Add(50 * time.Millisecond)) {
			c.info("jobs")
		}
		if done := c.revoked(id, `{"delay":"1h"}`); done.State != "dead" {
			t.Errorf("revoked: %+v", done)
		}
		break
	}
	c.next(dead)
}

// queueCount is a counter of a queue.
func (c *client) queueCount(name, queue string) (n float64) {
	c.Helper()
	families, err := c.registry().Gather()
	if err != nil {
		c.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "pq_queue_"+name {
			continue
		}
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "queue" && label.GetValue() == queue {
					return metric.GetCounter().GetValue()
				}
			}
		}
	}
	c.Fatalf("no counter %s of %s", name, queue)
	return 0
}
