package bridge_test

import (
	"fmt"
	"strconv"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
)

// +NXT acknowledges and pops in one transaction.
func TestNext(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i := range 6 {
		c.push(fmt.Sprintf("pq.jobs.push.%d", i), strconv.Itoa(i))
	}
	m := c.pop("pq.jobs.pop.max", "", "PQ-Lease", "1m", "PQ-Band", "1..4")
	for _, want := range []string{"3", "2"} {
		before := c.info("jobs").Rates["settle"]
		next := c.raw(m.Reply, "+NXT")
		if string(next.Data) != want || next.Reply == "" {
			t.Fatalf("next is %q, %v, want %s", next.Data, next.Header, want)
		}
		if after := c.info("jobs").Rates["settle"]; after <= before {
			t.Errorf("%g settlements a second became %g", before, after)
		}
		c.lost(c.raw(m.Reply, "+ACK"), "gone")
		m = next
	}
	// It may ask for something else.
	batch := c.batch(c.send(m.Reply, `+NXT {"batch":2,"min":0,"lease":5000000000}`))
	if got := bodies(batch); len(got) != 2 || got[0] != "5" || got[1] != "1" {
		t.Errorf("next are %q", got)
	}
	m = batch[0]
	c.accepted(c.raw(batch[1].Reply, ""))
	if next := c.raw(m.Reply, "+NXT", "PQ-Band", "-1.."); string(next.Data) != "0" {
		t.Errorf("next is %q, %v", next.Data, next.Header)
	} else {
		m = next
	}
	// In an empty queue the acknowledgement still takes effect.
	c.refused(c.raw(m.Reply, "+NXT"), 404, "empty")
	c.lost(c.raw(m.Reply, "+NXT"), "gone")
	// With a lost lease nothing is popped.
	c.push("pq.jobs.push", "x")
	c.lost(c.raw(m.Reply, "+NXT"), "gone")
	// Without a reply subject it only settles, and does not wait.
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	if err := c.Publish(m.Reply, []byte(`+NXT {"expires":60000000000}`)); err != nil {
		t.Fatal(err)
	}
	c.lost(c.raw(m.Reply, "+ACK"), "gone") // starts when the one before it has ended
	if i := c.info("jobs"); i.Leased != 0 || i.Waiting != 0 {
		t.Errorf("%+v", i)
	}
	c.push("pq.jobs.push", "y")
	// It can wait.
	m = c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
	sub := c.send(m.Reply, `+NXT {"expires":20000000000}`)
	c.waiting("jobs", 1)
	c.push("pq.jobs.push", "z")
	if next := c.next(sub); string(next.Data) != "z" || next.Reply == "" {
		t.Errorf("next is %q, %v", next.Data, next.Header)
	}
	if i := c.info("jobs"); i.Leased != 1 {
		t.Errorf("%+v", i)
	}
}

// A +NXT that finds nothing says why as the queue is after its own acknowledgement, also behind a pop of the same
// transaction that found nothing before it: one that waits, or one that does not.
func TestNextSaysWhyAfterItsAcknowledgement(t *testing.T) {
	t.Parallel()
	for reason, prepare := range map[string]func(*client){
		"empty":   func(*client) {},
		"delayed": func(c *client) { c.push("pq.jobs.push", "later", "PQ-Delay", "1h") },
		"leased": func(c *client) {
			c.push("pq.jobs.push", "another")
			c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
		},
	} {
		for _, wait := range []string{"1h", "0s"} {
			t.Run(reason+" "+wait, func(t *testing.T) {
				t.Parallel()
				c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
				c.push("pq.jobs.push", "one")
				held := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
				prepare(c)
				c.push("pq.jobs.push", "nobody's")
				_, all := c.together(db,
					func() answers { return c.send("pq.jobs.pop.min", "", "PQ-Wait", wait) },
					func() answers { return c.send(held.Reply, "+NXT") })
				c.refused(c.next(all[1]), 404, reason)
				if wait == "1h" {
					c.push("pq.jobs.push", "for the one that waits")
					if m := c.next(all[0]); string(m.Data) != "for the one that waits" {
						t.Errorf("the waiting pop got %q, %v", m.Data, m.Header)
					}
				}
			})
		}
	}
}

// The answer to +NXT in an empty queue is not a failed acknowledgement: it has no Status
// 503, which nats.go reads as "no responders".
func TestNextOfNothing(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for body, want := range map[string]string{"+NXT": "404", `+NXT {"expires":50000000}`: "408"} {
		c.push("pq.jobs.push", "x")
		m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1m")
		answer := c.raw(m.Reply, body)
		if got := answer.Header.Get("Status"); got != want {
			t.Errorf("%s answers Status %s, want %s", body, got, want)
		}
	}
}
