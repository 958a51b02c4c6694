package bridge_test

import (
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
)

// Settlements of one lease take effect one after the other, even when the first one
// is delayed and the turns of the second one are free.
func TestSettlementsOfALeaseKeepTheirOrder(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{}) // settlements have transactions of their own
	ack := c.leases(1)[0]
	release := sync.OnceFunc(db.blockNext())
	defer release() // or the end of a test that failed would wait for it
	first := c.send(ack, "+ACK")
	db.awaitBlocked(t)
	next := c.send(ack, "+NXT")
	c.inFlight("settlement", 2)
	c.refused(c.ask("pq.jobs.pop.min", ""), 404) // +NXT would have run before it
	if n := len(next.came); n > 0 {
		t.Error("+NXT was answered before the acknowledgement that came first")
	}
	release()
	c.accepted(c.next(first))
	c.lost(c.next(next), "gone")
}

// Settlements of a lease from one connection take effect in the order in which they
// were sent: after the acknowledgement there is no lease to extend.
func TestSettlementsKeepTheOrderOfTheirConnection(t *testing.T) {
	t.Parallel()
	for name, exclusive := range map[string]bool{"own store": true, "shared store": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, bridge.Options{Exclusive: exclusive})
			for _, ack := range c.leases(200) {
				first, next := c.send(ack, "+ACK"), c.send(ack, "+WPI")
				c.accepted(c.next(first))
				c.lost(c.next(next), "gone")
			}
		})
	}
}

// An acknowledgement that waits for the next item has settled the lease: later
// settlements of the lease are answered at once.
func TestSettlementBehindOneThatWaits(t *testing.T) {
	t.Parallel()
	c := serve(t)
	ack := c.leases(1)[0]
	next := c.send(ack, "+NXT", "PQ-Wait", "100s")
	c.waiting("jobs", 1)
	for range 3 {
		c.lost(c.raw(ack, "+ACK"), "gone")
	}
	c.push("pq.jobs.push.5", "next")
	m := c.next(next)
	if string(m.Data) != "next" {
		t.Fatalf("%q, %v", m.Data, m.Header)
	}
	c.accepted(c.raw(m.Reply, "+WPI"))
	c.accepted(c.raw(m.Reply, "+ACK"))
}
