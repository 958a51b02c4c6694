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

// A waiting pop gets its item when the rate allows it and not before, although nothing
// arrives: beside another bridge, and behind a pop of its transaction.
func TestWaitingPopForRate(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	c.second(bridge.Options{})
	c.configure(`{"rate":"2/1s"}`)
	for n := range 4 {
		c.key("k", fmt.Sprint(n))
	}
	started := time.Now()
	c.batch(c.send("pq.jobs.pop.min", "2"))
	inbox := c.NewInbox()
	all := c.hear(inbox + ".*")
	for n := range 2 {
		m := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: fmt.Sprint(inbox, ".", n), Header: h("PQ-Wait", forever)}
		if err := c.PublishMsg(m); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 2 {
		if m := c.next(all); string(m.Data) != fmt.Sprint(n+2) {
			t.Errorf("%q, %v", m.Data, m.Header)
		}
		if took, want := time.Since(started), time.Duration(n+1)*time.Second/2; took < want {
			t.Errorf("item %d came after %s, its token comes after %s", n+2, took, want)
		}
	}
}

// A waiting peek shows the item when the rate allows a pop.
func TestWaitingPeekForRate(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"rate":"2/1s"}`)
	for n := range 3 {
		c.push("pq.jobs.push", fmt.Sprint(n))
	}
	c.batch(c.send("pq.jobs.pop.min", "2"))
	if m := c.pop("pq.jobs.peek.min", "", "PQ-Wait", forever); string(m.Data) != "2" {
		t.Errorf("%q, %v", m.Data, m.Header)
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

// A key and its items say that the key is out of tokens. Another rate lets the waiting pop have its item at once.
func TestKeyRate(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"key_rate":"2/1h"}`)
	var last string
	for i := range 4 {
		last = c.key("ann", fmt.Sprint("ann ", i))
	}
	c.batch(c.send("pq.jobs.pop.min", "2"))
	if m := c.ask("pq.jobs.get."+last, ""); m.Header.Get("PQ-Waits-For") != "key_rate" {
		t.Errorf("%v", m.Header)
	}
	info := object[protocol.KeyInfo](c, "pq.jobs.key.ann", "")
	if info.Ready != 2 || info.Rate != "2/1h0m0s" || info.Tokens == nil || *info.Tokens != 0 || info.WaitsFor != "key_rate" ||
		info.Retry <= 0 || info.Retry > protocol.Duration(30*time.Minute) {
		t.Errorf("%+v", info)
	}
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
