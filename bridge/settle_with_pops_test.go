package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/testenv"
)

// leases pushes items and leases them.
func (c *client) leases(n int) (acks []string) {
	c.Helper()
	for range n {
		c.push("pq.jobs.push.5", "x")
	}
	for _, m := range c.batch(c.send("pq.jobs.pop.min", fmt.Sprint(n), "PQ-Lease", "1h")) {
		acks = append(acks, m.Reply)
	}
	if len(acks) != n {
		c.Fatalf("%d leases, want %d", len(acks), n)
	}
	return acks
}

// inFlight waits until the bridge has n requests of a kind in flight.
func (c *client) inFlight(kind string, n float64) {
	c.Helper()
	key := "pq_requests_in_flight{kind=" + kind + "}"
	testenv.AwaitValue(c, kind+" requests in flight", n, func() float64 { return c.own()[key] })
}

// behind delays the commit of a pop and sends settlements and as many pops after it.
// It returns when the bridge has received all of them.
func (c *client) behind(db *slow, acks []string, settlement string) (settled, popped []answers, release func()) {
	c.Helper()
	c.inFlight("work", 0)
	c.inFlight("settlement", 0)
	release = db.blockNext()
	popped = append(popped, c.send("pq.jobs.pop.min", ""))
	db.awaitBlocked(c)
	for _, ack := range acks {
		settled = append(settled, c.send(ack, settlement))
		popped = append(popped, c.send("pq.jobs.pop.min", ""))
	}
	c.inFlight("work", float64(len(popped)))
	c.inFlight("settlement", float64(len(settled)))
	return settled, popped, release
}

// transactions counts the transactions with pops, and the transactions with settlements alone.
func (c *client) transactions() (pops, changes float64) {
	c.Helper()
	m := c.metrics()
	return m["pq_batch_requests{kind=pop}"], m["pq_batch_requests{kind=change}"]
}

// In a store that only this bridge opens, settlements and pops share a transaction.
func TestSettleWithPops(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	dead := c.hear("pq.jobs.event.dead")
	acks := c.leases(20)
	for i := range 15 {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	c.accepted(c.raw(acks[0], "")) // the second time it is lost
	pops, changes := c.transactions()
	settled, popped, release := c.behind(db, acks, "+TERM")
	release()
	for i, answer := range settled {
		if m := c.next(answer); i == 0 {
			c.lost(m, "gone")
		} else {
			c.accepted(m)
		}
	}
	for i, answer := range popped {
		if m := c.next(answer); i >= 15 {
			c.refused(m, 404, "empty")
		} else if string(m.Data) != fmt.Sprint(i) {
			t.Errorf("popped %q, want %d", m.Data, i)
		}
	}
	if p, s := c.transactions(); p != pops+2 || s != changes {
		t.Errorf("%g transactions of pops and %g of settlements, want 2 and 0", p-pops, s-changes)
	}
	for range 19 {
		c.next(dead)
	}
	if i := c.info("jobs"); i.Ready != 0 || i.Leased != 0 || i.Rates["settle"] < 19.0/60 || i.Rates["settle"] > 20.5/60 {
		t.Errorf("%+v", i)
	}
}

// In such a store pops wait for the settlement before them, and share the transaction
// of the next ones: a worker that does not wait for its acknowledgement pays for one
// transaction, not for two.
func TestPopsBehindSettlement(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(3)
	c.push("pq.jobs.push.5", "y")
	pops, changes := c.transactions()
	release := db.blockNext()
	first := c.send(acks[0], "+ACK")
	db.awaitBlocked(c)
	pop := c.send("pq.jobs.pop.min", "")
	settled := []answers{c.send(acks[1], "+ACK"), c.send(acks[2], "+ACK")}
	c.refused(c.raw("pq.jobs.push.x", ""), 400) // by the receiver, after those before it
	release()
	c.accepted(c.next(first))
	if m := c.next(pop); string(m.Data) != "y" {
		t.Errorf("popped %q", m.Data)
	}
	for _, answer := range settled {
		c.accepted(c.next(answer))
	}
	if p, s := c.transactions(); p != pops+1 || s != changes+1 {
		t.Errorf("%g transactions of pops and %g of settlements, want 1 and 1", p-pops, s-changes)
	}
}

// In a store that bridges share, a settlement does not wait for pops.
func TestSettleInSharedStore(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{})
	acks := c.leases(3)
	c.push("pq.jobs.push.5", "y")
	release := db.blockNext()
	first := c.send("pq.jobs.pop.min", "")
	db.awaitBlocked(c)
	for _, ack := range acks {
		c.accepted(c.raw(ack, "+ACK"))
	}
	release()
	if m := c.next(first); string(m.Data) != "y" {
		t.Errorf("popped %q", m.Data)
	}
}

// tooLarge pushes an item into the store that no answer can carry.
func (c *client) tooLarge() {
	c.Helper()
	c.pushPast(fdbpq.NewItem{Priority: 9, HasPriority: true, Payload: make([]byte, fdbpq.MaxContent)})
}

// A pop that fails a transaction does not fail the settlements in it.
func TestSettleWithFailingPop(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(5)
	c.push("pq.jobs.push.5", "first")
	c.tooLarge()
	settled, popped, release := c.behind(db, acks, "+ACK")
	release()
	for _, answer := range settled {
		c.accepted(c.next(answer))
	}
	for i, answer := range popped {
		if m := c.next(answer); i == 0 {
			if string(m.Data) != "first" {
				t.Errorf("popped %q", m.Data)
			}
		} else {
			c.refused(m, 413)
		}
	}
	if i := c.info("jobs"); i.Leased != 0 || i.Ready != 1 || i.Rates["settle"] > 5.5/60 {
		t.Errorf("%+v", i)
	}
	c.lost(c.raw(acks[0], ""), "gone")
}

// In an outage of the store neither settlements nor pops take effect, and both can be
// repeated.
func TestSettleWithPopsInOutage(t *testing.T) {
	t.Parallel()
	base := faulty(t)
	c, db := slowly(t, base, bridge.Options{Exclusive: true})
	acks := c.leases(3)
	c.push("pq.jobs.push.5", "first")
	c.push("pq.jobs.push.5", "second")
	settled, popped, release := c.behind(db, acks, "+ACK")
	base.SetChances(fault.Chances{fault.Unavailable: 1})
	release()
	if m := c.next(popped[0]); string(m.Data) != "first" {
		t.Errorf("popped %q", m.Data)
	}
	for _, answer := range append(settled, popped[1:]...) {
		c.refused(c.next(answer), 503)
	}
	base.SetChances(nil)
	for _, ack := range acks {
		c.accepted(c.raw(ack, ""))
	}
	if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != "second" {
		t.Errorf("popped %q", m.Data)
	}
}

// Settlements alone do not make the bridge try waiting pops again. A settlement that
// makes an item ready does, also in a transaction that tries them.
func TestSettleWhileOthersWait(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(4)
	var high []*nats.Msg
	for range 2 {
		c.push("pq.jobs.push.9", "high")
		high = append(high, c.pop("pq.jobs.pop.max", "", "PQ-Lease", "1h"))
	}
	c.push("pq.jobs.push.5", "y")
	c.push("pq.jobs.push.5", "z")
	wait := func() answers {
		defer c.waiting("jobs", 1)
		return c.send("pq.jobs.pop.max", "", "PQ-Wait", forever, "PQ-Band", "9..9")
	}
	waiter := wait()
	pops, changes := c.transactions()

	release := db.blockNext()
	first := c.send("pq.jobs.pop.min", "")
	db.awaitBlocked(t)
	var settled []answers
	for _, ack := range acks {
		settled = append(settled, c.send(ack, ""))
	}
	c.inFlight("settlement", 4)
	release()
	for _, answer := range append(settled, first) {
		if m := c.next(answer); m.Header.Get("Status") != "" {
			t.Errorf("%v", m.Header)
		}
	}
	if p, s := c.transactions(); p != pops+1 || s != changes+1 {
		t.Errorf("4 settlements and a pop made %g transactions of pops and %g of settlements, want 1 of each", p-pops, s-changes)
	}

	c.accepted(c.raw(high[0].Reply, "-NAK"))
	if m := c.next(waiter); string(m.Data) != "high" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	waiter = wait()
	settled, popped, release := c.behind(db, []string{high[1].Reply}, "-NAK")
	release()
	c.accepted(c.next(settled[0]))
	if m := c.next(waiter); string(m.Data) != "high" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	if m := c.next(popped[0]); string(m.Data) != "z" {
		t.Errorf("popped %q", m.Data)
	}
	c.refused(c.next(popped[1]), 404)
}

// Settlements that keep arriving do not delay the refusal of a pop.
func TestRefusedPopBesideSettlements(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(2)
	c.push("pq.jobs.push.5", "first")
	c.tooLarge()
	settled, popped, release := c.behind(db, acks[:1], "+ACK")
	next := db.blockNext()
	release()
	db.awaitBlocked(t) // the first settlement, without the pop beside it
	settled = append(settled, c.send(acks[1], "+ACK"))
	c.inFlight("settlement", 2)
	last := db.blockNext()
	next()
	c.refused(c.next(popped[1]), 413)
	db.awaitBlocked(t)
	last()
	for _, answer := range settled {
		c.accepted(c.next(answer))
	}
}

// A settlement waits for one transaction at most, however many pops arrived before it.
func TestSettlementsDoNotQueueBehindPops(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Limits: bridge.Limits{BatchRequests: 2}})
	acks := c.leases(2)
	for range 9 {
		c.push("pq.jobs.push.5", "x")
	}
	release := db.blockNext()
	pops := []answers{c.send("pq.jobs.pop.min", "")}
	db.awaitBlocked(t)
	for range 4 {
		pops = append(pops, c.send("pq.jobs.pop.min", "2"))
	}
	c.inFlight("work", 5)
	settled := []answers{c.send(acks[0], "+ACK"), c.send(acks[1], "+ACK")}
	c.inFlight("settlement", 2)
	next := db.blockNext()
	release()
	db.awaitBlocked(t)
	last := db.blockNext()
	next()
	for _, answer := range settled {
		c.accepted(c.next(answer))
	}
	db.awaitBlocked(t)
	last()
	for i, answer := range pops[1:] {
		if n := len(c.batch(answer)); n != 2 {
			t.Errorf("batch %d has %d items", i, n)
		}
	}
}

// An acknowledgement that asks for the next item takes effect once, however many
// transactions search for that item.
func TestNextBehindExpired(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for round := range 5 {
		m := c.lease("x")
		var expired []fdbpq.NewItem
		for range 1000 {
			expired = append(expired, fdbpq.NewItem{TTL: time.Nanosecond})
		}
		c.pushPast(expired...)
		c.push("pq.jobs.push.5", "next")
		next := c.raw(m.Reply, "+NXT")
		if string(next.Data) != "next" {
			t.Fatalf("round %d: next is %q, %v", round, next.Data, next.Header)
		}
		c.accepted(c.raw(next.Reply, ""))
	}
}
