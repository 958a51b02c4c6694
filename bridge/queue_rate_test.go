package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

func (c *client) configure(object string) {
	c.Helper()
	if m := c.ask("pq.jobs.admin.config", object); m.Header.Get("Nats-Service-Error") != "" {
		c.Fatal(m.Header)
	}
}

// The bucket of a queue is full at first. Then the answer says that the rate is the reason,
// whoever asks.
func TestRate(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"3/1h"}`)
	var last string
	for i := range 5 {
		last = c.push("pq.jobs.push", fmt.Sprint(i)).ID
	}
	if items := c.batch(c.send("pq.jobs.pop.min", "10")); len(items) != 3 || string(items[2].Data) != "2" {
		t.Errorf("a batch has %d items, the rate allows 3", len(items))
	}
	for _, verb := range []string{"pop.min", "pop.max", "peek.min"} {
		c.refused(c.ask("pq.jobs."+verb, ""), 404, "rate")
	}
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Band", "0..0"), 404, "rate")
	if m := c.ask("pq.jobs.get."+last, ""); m.Header.Get("PQ-Waits-For") != "rate" {
		t.Errorf("%v", m.Header)
	}
	c.ask("pq.jobs.admin.purge", "")
	c.push("pq.jobs.push", "x")
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "rate") // debts stay
	c.ask("pq.jobs.admin.pause", "")
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "paused")
	c.ask("pq.jobs.admin.delete", "")
	c.push("pq.jobs.push", "y")
	c.pop("pq.jobs.pop.min", "")
}

// A waiting pop gets its item when the rate allows it and not before, although nothing
// arrives: of the queue, of the key, beside another bridge, and behind a pop of its
// transaction.
func TestWaitingPopForRate(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"rate":"1/1s"}`, `{"key_rate":"1/1s"}`, `{"fair":"priority","key_rate":"1/1s"}`} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			c := serve(t, bridge.Options{})
			c.second(bridge.Options{})
			c.configure(config)
			c.key("k", "0")
			started := time.Now()
			c.pop("pq.jobs.pop.min", "")
			c.key("k", "1")
			c.key("k", "2")
			inbox := c.NewInbox()
			all := c.hear(inbox + ".*")
			for n := range 2 {
				m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: fmt.Sprint(inbox, ".", n), Header: h("PQ-Wait", forever)}
				if err := c.PublishMsg(m); err != nil {
					t.Fatal(err)
				}
			}
			for n := range 2 {
				if m := c.next(all); string(m.Data) != fmt.Sprint(n+1) {
					t.Errorf("%q, %v", m.Data, m.Header)
				}
				if took, want := time.Since(started), time.Duration(n+1)*time.Second; took < want {
					t.Errorf("item %d came after %s, its token comes after %s", n+1, took, want)
				}
			}
		})
	}
}

// As many items as the rate says go at once, and then one after another at even distances,
// to pops of two bridges.
func TestRateRefillsEvenly(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	c.second(bridge.Options{})
	c.configure(`{"rate":"3/1500ms"}`)
	const items = 7
	for range items {
		c.push("pq.jobs.push", "")
	}
	started := time.Now()
	for range 3 {
		c.pop("pq.jobs.pop.min", "")
	}
	got := 3
	inTime := func() {
		t.Helper()
		got++
		if took, want := time.Since(started), time.Duration(got-3)*500*time.Millisecond; took < want {
			t.Errorf("item %d came after %s, its token comes after %s", got, took, want)
		}
	}
	if m := c.ask("pq.jobs.pop.min", ""); m.Header.Get("PQ-Id") != "" {
		inTime() // the machine is slow
	} else {
		c.refused(m, 404, "rate")
	}
	inbox := c.NewInbox()
	all := c.hear(inbox + ".*")
	for n := range items - got {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: fmt.Sprint(inbox, ".", n), Header: h("PQ-Wait", forever)}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for got < items {
		if m := c.next(all); m.Header.Get("PQ-Id") == "" {
			t.Fatal(m.Header)
		}
		inTime()
	}
}

// A waiting peek shows the item when the rate allows a pop.
func TestWaitingPeekForRate(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"rate":"1/1s"}`, `{"key_rate":"1/1s"}`} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			c.configure(config)
			c.key("k", "1")
			c.pop("pq.jobs.pop.min", "")
			c.key("k", "2")
			if m := c.pop("pq.jobs.peek.min", "", "PQ-Wait", forever); string(m.Data) != "2" {
				t.Errorf("%q, %v", m.Data, m.Header)
			}
		})
	}
}

// A new pop and one that waits, in one transaction: the time for the next look is kept,
// whichever of them finds nothing first.
func TestRateInOneTransaction(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.configure(`{"rate":"1/1s"}`)
	for i := range 3 {
		c.push("pq.jobs.push", fmt.Sprint(i))
	}
	first, all := c.together(db,
		func() answers { return c.send("pq.jobs.pop.min", "", "PQ-Lease", "1m") },
		func() answers { return c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h", "PQ-Wait", forever) })
	if m := c.next(first); string(m.Data) != "0" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
	c.refused(c.next(all[0]), 404, "rate")
	if m := c.next(all[1]); string(m.Data) != "1" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}

// A key out of tokens keeps no other key waiting, and its items say so.
func TestKeyRate(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"key_rate":"2/1h"}`)
	var last string
	for i := range 4 {
		last = c.key("ann", fmt.Sprint("ann ", i))
	}
	c.key("bob", "bob")
	c.push("pq.jobs.push", "nobody's")
	for _, want := range []string{"ann 0", "ann 1", "bob", "nobody's"} {
		if m := c.pop("pq.jobs.pop.min", ""); string(m.Data) != want {
			t.Errorf("%q, expected %q", m.Data, want)
		}
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "blocked")
	c.refused(c.ask("pq.jobs.pop.max", ""), 409, "only_min")
	if m := c.ask("pq.jobs.get."+last, ""); m.Header.Get("PQ-Waits-For") != "key_rate" {
		t.Errorf("%v", m.Header)
	}
	info := object[protocol.KeyInfo](c, "pq.jobs.key.ann", "")
	if info.Ready != 2 || info.Rate != "2/1h0m0s" || info.Tokens == nil || *info.Tokens != 0 || info.WaitsFor != "key_rate" ||
		info.Retry <= 0 || info.Retry > protocol.Duration(30*time.Minute) {
		t.Errorf("%+v", info)
	}
	// Another rate lets the waiting pop have its item at once.
	waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	c.configure(`{"key_rate":""}`)
	if m := c.next(waits); string(m.Data) != "ann 2" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}

// A rate that is raised or dropped lets waiting pops go.
func TestRateChanges(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"1/24h"}`)
	for i := range 3 {
		c.push("pq.jobs.push", fmt.Sprint(i))
	}
	c.pop("pq.jobs.pop.min", "")
	for i, rate := range []string{"10/1s", ""} {
		waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
		if i == 0 {
			c.waiting("jobs", 1)
		}
		c.configure(`{"rate":"` + rate + `"}`)
		if m := c.next(waits); string(m.Data) != fmt.Sprint(i+1) {
			t.Errorf("rate %q: %q, %v", rate, m.Data, m.Header)
		}
	}
}

// A drain ends the wait for a token like any other.
func TestDrainWhileWaitingForRate(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"1/1h"}`)
	c.push("pq.jobs.push", "1")
	c.push("pq.jobs.push", "2")
	c.pop("pq.jobs.pop.min", "")
	waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever)
	c.waiting("jobs", 1)
	c.drain(c.env.Bridge)
	c.refused(c.next(waits), 409)
}

// Deliveries that come back count again, and one that reached nobody does not.
func TestRateCountsDeliveries(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"3/1h","lease":"1h"}`)
	c.push("pq.jobs.push", "a")
	for range 3 {
		c.accepted(c.raw(c.pop("pq.jobs.pop.min", "").Reply, "-NAK"))
	}
	c.refused(c.ask("pq.jobs.pop.min", ""), 404, "rate")
}

// A delivery that reached nobody gives its tokens back.
func TestRateOfUnreceivedItem(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"rate":"1/24h"}`, `{"key_rate":"1/24h"}`} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			c := serve(t)
			c.configure(config)
			c.key("k", "x")
			if err := c.PublishMsg(&nats.Msg{Subject: "pq.jobs.pop.min", Reply: c.NewInbox(), Header: h("PQ-Lease", "1h")}); err != nil {
				t.Fatal(err)
			}
			m := c.pop("pq.jobs.pop.min", "", "PQ-Wait", "50s", "PQ-Lease", "1h")
			if m.Header.Get("PQ-Fence") != "2" || m.Header.Get("PQ-Deliveries") != "1" {
				t.Errorf("%v", m.Header)
			}
		})
	}
}

// A repeated pop gets its items again, and takes no tokens.
func TestRateAndRepeatedPop(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"1/1h"}`)
	c.push("pq.jobs.push", "a")
	var first *nats.Msg
	for range 3 {
		m := c.pop("pq.jobs.pop.min", "", "Nats-Msg-Id", "p", "PQ-Lease", "1h")
		if first == nil {
			first = m
		}
		if m.Header.Get("PQ-Ack") != first.Header.Get("PQ-Ack") && m.Header.Get("PQ-Id") != first.Header.Get("PQ-Id") {
			t.Errorf("%v, then %v", first.Header, m.Header)
		}
	}
}
