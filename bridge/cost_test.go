package bridge_test

import (
	"strconv"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// costs makes the queue jobs hand out a cost of 100, and so little of it later that none comes within a test.
func costs(t *testing.T) *client {
	t.Helper()
	c := serve(t)
	c.ask("pq.jobs.admin.config", `{"cost_rate":"100/24h"}`)
	return c
}

// costly pushes an item and leases it.
func (c *client) costly(cost string) *nats.Msg {
	c.Helper()
	c.push("pq.jobs.push", "x", "PQ-Cost", cost)
	m := c.pop("pq.jobs.pop.min", "", "PQ-Lease", "1h")
	if m.Header.Get("PQ-Cost") != cost {
		c.Errorf("the item has %v", m.Header)
	}
	return m
}

// costLeft is how much cost the queue may hand out.
func (c *client) costLeft() int64 {
	c.Helper()
	i := object[protocol.Info](c, "pq.jobs.info", "")
	if i.CostTokens == nil {
		c.Fatal("no cost_tokens")
	}
	return *i.CostTokens
}

// Each settlement corrects what its delivery has reserved, where it says so, in a message of its own and in a frame.
func TestCostOfSettlements(t *testing.T) {
	t.Parallel()
	for _, framed := range []bool{false, true} {
		for _, tc := range []struct {
			words, cost string
			left        int64
		}{
			{"+ACK", "", 40},
			{"+ACK", "0", 100},
			{"+ACK done", "10", 90},
			{"+ACK", "500", -100}, // a debt of 24 hours
			{"", "61", 39},
			{"-NAK 1h", "10", 90},
			{"+TERM no", "10", 90},
			{"+BACK stopped", "10", 90},
			{"+BACK", "", 100},
			{"+WPI", "", 40},
			{"+WPI", "10", 40},
			{"+WPI half", "80", 20},
		} {
			c := costs(t)
			ack := c.costly("60").Header.Get("PQ-Ack")
			if c.costLeft() != 40 {
				t.Fatalf("%d are left behind a delivery of 60", c.costLeft())
			}
			var header []string
			if tc.cost != "" {
				header = []string{"PQ-Cost", tc.cost}
			}
			if framed {
				if got := c.settleFrames(frame(tc.words, append(header, "PQ-Ack", ack)...)); got[0][:3] != "+OK" {
					t.Errorf("%s: %q", tc.words, got)
				}
			} else {
				c.accepted(c.raw(ack, tc.words, header...))
			}
			if left := c.costLeft(); left != tc.left {
				t.Errorf("%q with %q, framed %t: %d are left, expected %d", tc.words, tc.cost, framed, left, tc.left)
			}
		}
	}
}

// A cost that is none is refused, and so is one where nobody has begun. What comes with the item says nothing.
func TestCostIsRefused(t *testing.T) {
	t.Parallel()
	c := costs(t)
	m := c.costly("60")
	for _, header := range []string{"-1", "x", "1000001", ""} {
		c.refused(c.raw(m.Reply, "+ACK", "PQ-Cost", header), 400)
	}
	c.refused(c.raw(m.Reply, "+BACK", "PQ-Cost", "1"), 400)
	c.refused(c.ask("pq.jobs.push", "", "PQ-Cost", "0"), 400)
	c.refused(c.ask("pq.jobs.admin.config", `{"cost_rate":"1/1h","key_cost_rate":"1000000000001/1h"}`), 400)
	to := c.listen()
	m.Header.Set("PQ-Cost", "1")
	if err := c.PublishMsg(&nats.Msg{Subject: m.Reply, Reply: to.inbox, Header: m.Header}); err != nil {
		t.Fatal(err)
	}
	c.accepted(c.next(to))
	if c.costLeft() != 40 {
		t.Errorf("%d are left", c.costLeft())
	}
}

// A pop that waits for tokens gets its item as soon as a settlement has given some back, of the queue and of a key.
func TestWaitingPopHearsOfTrueCost(t *testing.T) {
	t.Parallel()
	for config, header := range map[string][]string{
		`{"cost_rate":"100/24h"}`:     {"PQ-Cost", "200"},
		`{"key_cost_rate":"100/24h"}`: {"PQ-Cost", "200", "PQ-Key", "ann"},
	} {
		c := serve(t)
		c.ask("pq.jobs.admin.config", config)
		for _, name := range []string{"first", "second"} {
			c.push("pq.jobs.push", name, header...)
		}
		first := c.leased("first")
		waits := c.send("pq.jobs.pop.min", "", "PQ-Wait", forever, "PQ-Lease", "1h")
		c.waiting("jobs", 1)
		reason, waitsFor := "rate", "rate"
		if len(header) > 2 {
			reason, waitsFor = "blocked", "key_cost_rate"
		}
		c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Lease", "1h"), 404, reason)
		second := c.push("pq.jobs.push", "third", header...)
		if got := c.ask("pq.jobs.get."+second.ID, "").Header.Get("PQ-Waits-For"); got != waitsFor {
			t.Errorf("%s: the item waits for %q", config, got)
		}
		c.accepted(c.raw(first.Reply, "+ACK", "PQ-Cost", "10"))
		if m := c.next(waits); string(m.Data) != "second" {
			t.Errorf("%s: %q, %v", config, m.Data, m.Header)
		}
	}
}

// A +NXT settles the cost of its delivery before it takes the next item, and info compares what was reserved with what was spent.
func TestCostOfNext(t *testing.T) {
	t.Parallel()
	c := costs(t)
	m := c.costly("100")
	c.push("pq.jobs.push", "next", "PQ-Cost", "7")
	c.refused(c.raw(m.Reply, "+NXT", "PQ-Cost", "100"), 404, "rate")
	c = costs(t)
	m = c.costly("100")
	c.push("pq.jobs.push", "next", "PQ-Cost", "7")
	if next := c.raw(m.Reply, "+NXT", "PQ-Cost", "90"); string(next.Data) != "next" {
		t.Fatalf("%q, %v", next.Data, next.Header)
	}
	i := object[protocol.Info](c, "pq.jobs.info", "")
	if i.Cost == nil || *i.Cost != (protocol.Cost{Reserved: 100, Spent: 90}) || *i.CostTokens != 3 {
		t.Errorf("%+v, %d", i.Cost, *i.CostTokens)
	}
}

// A key has a rate of its own, and shows what is left of it.
func TestCostOfOneKey(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.ask("pq.jobs.admin.key.ann", `{"cost_rate":"100/24h"}`)
	for i := range 2 {
		c.push("pq.jobs.push", strconv.Itoa(i), "PQ-Cost", "150", "PQ-Key", "ann")
	}
	c.leased("0")
	c.blocked()
	k := object[protocol.KeyInfo](c, "pq.jobs.key.ann", "")
	if k.CostRate != "100/24h0m0s" || k.CostTokens == nil || *k.CostTokens != -50 || k.WaitsFor != "key_cost_rate" || k.Retry <= 0 || *k.Settings.CostRate != k.CostRate {
		t.Errorf("%+v", k)
	}
	c.ask("pq.jobs.admin.key.ann", `{"cost_rate":""}`)
	c.leased("1")
}
