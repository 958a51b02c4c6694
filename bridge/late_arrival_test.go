package bridge_test

import (
	"sync"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
)

// A pop begins to wait for an item that another queue's part of the same transaction brings: a dead letter.
func TestWaitForAnItemOfTheSameTransaction(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	ack := c.leases(1)[0]
	c.push("pq.jobs-held.push", "held")
	release := sync.OnceFunc(db.blockNext())
	defer release() // or the end of a test that failed would wait for it
	held := c.send("pq.jobs-held.pop.min", "")
	db.awaitBlocked(t)
	pop := c.send("pq.jobs-dead.pop.min", "", "PQ-Wait", forever)
	c.awaitLine(1)
	ended := c.send(ack, "+TERM")
	c.awaitLine(2)
	before := db.commits.Load()
	release()
	if m := c.next(held); string(m.Data) != "held" {
		t.Errorf("the pop that held the turn got %q, %v", m.Data, m.Header)
	}
	c.accepted(c.next(ended))
	if m := c.next(pop); string(m.Data) != "x" {
		t.Errorf("the pop got %q, %v", m.Data, m.Header)
	}
	if n := db.commits.Load() - before; n > 3 {
		t.Errorf("%d transactions, expected that both shared one", n)
	}
}
