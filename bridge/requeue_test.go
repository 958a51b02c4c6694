package bridge_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// buried pushes an item to jobs, gives it up, and returns its dead letter's id.
func (c *client) buried(body string) string {
	c.Helper()
	c.push("pq.jobs.push.7", body, "Season", "autumn")
	c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM no use"))
	return c.pop("pq.jobs-dead.peek.max", "").Header.Get("PQ-Id")
}

// A dead letter says when it died and after how many deliveries, wherever it is shown, and an
// import keeps that.
func TestDeadLetterSaysWhenItDied(t *testing.T) {
	t.Parallel()
	c := serve(t)
	before := time.Now()
	c.push("pq.jobs.push", "x")
	c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply, "-NAK"))
	c.accepted(c.raw(c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h").Reply, "+TERM no use"))
	letter := c.pop("pq.jobs-dead.peek.min", "")
	died, err := time.Parse(time.RFC3339Nano, letter.Header.Get("PQ-Dead-At"))
	if err != nil || died.Before(before.Add(-time.Second)) || died.After(time.Now().Add(time.Second)) {
		t.Errorf("it died at %q, %v", letter.Header.Get("PQ-Dead-At"), err)
	}
	var page protocol.Page
	if err := json.Unmarshal(c.ask("pq.jobs-dead.list", "").Data, &page); err != nil {
		t.Fatal(err)
	}
	if d := page.Items[0].Dead; d == nil || !d.At.Equal(died) || d.Deliveries != 2 || d.Reason != "no use" {
		t.Errorf("the list says %+v", d)
	}
	shown := c.pop("pq.jobs-dead.get."+letter.Header.Get("PQ-Id"), "")
	c.acknowledged(c.askMsg(&nats.Msg{Subject: "pq.other-dead.import", Header: shown.Header, Data: shown.Data}))
	for _, subject := range []string{"pq.jobs-dead.pop.min", "pq.other-dead.pop.min"} {
		popped := c.pop(subject, "")
		if at, n := popped.Header.Get("PQ-Dead-At"), popped.Header.Get("PQ-Dead-Deliveries"); at != letter.Header.Get("PQ-Dead-At") || n != "2" {
			t.Errorf("%s: died at %q after %q deliveries", subject, at, n)
		}
	}
	c.refused(c.raw("pq.jobs-dead.import", "x", "PQ-Id", letter.Header.Get("PQ-Id"), "PQ-Dead-At", "yesterday"), 400)
	c.refused(c.raw("pq.jobs-dead.import", "x", "PQ-Id", letter.Header.Get("PQ-Id"), "PQ-Dead-Deliveries", "-1"), 400)
	c.refused(c.raw("pq.jobs-dead.import", "x", "PQ-Id", letter.Header.Get("PQ-Id"), "PQ-Dead-At", "2999-01-01T00:00:00Z"), 400)
}

// A requeue brings a dead letter back to its queue, where pops that wait get it, and to no other.
func TestRequeueRequest(t *testing.T) {
	t.Parallel()
	c := serve(t)
	letter := c.buried("x")
	c.refused(c.raw("pq.jobs-dead.requeue."+letter, `{"to":"others"}`), 403)
	waiter := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	ack := c.acknowledged(c.raw("pq.jobs-dead.requeue."+letter, `{"to":"jobs"}`))
	if ack.Stream != "jobs" || ack.Priority != 7 || ack.ID == letter {
		t.Errorf("the answer is %+v", ack)
	}
	m := c.next(waiter)
	if string(m.Data) != "x" || m.Header.Get("Season") != "autumn" || m.Header.Get("PQ-Dead-Reason") != "" || m.Header.Get("PQ-Id") != ack.ID {
		t.Errorf("the pop that waits gets %q, %v", m.Data, m.Header)
	}
	c.refused(c.raw("pq.jobs-dead.requeue."+letter, ""), 404, "unknown")
}
