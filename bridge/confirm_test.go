package bridge_test

import (
	"strings"
	"testing"
	"time"
)

// What a pop would take for good is leased until it is acknowledged. Where the queue has a lease of its own, the items
// have that one, and do not look as if they were to be confirmed.
func TestPopInTwoSteps(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push", "one")
	item := c.pop("pq.jobs.pop.min", `{"confirm":3600000000000}`)
	until, err := time.Parse(time.RFC3339Nano, item.Header.Get("PQ-Confirm"))
	if left := time.Until(until); err != nil || left < 50*time.Minute || left > 70*time.Minute || item.Header["PQ-Lease-Expires"] != nil || item.Reply == "" {
		t.Errorf("the answer is %v, %q: expected an item to confirm within an hour", item.Header, item.Reply)
	}
	c.ask(item.Reply, "+BACK")
	if i := c.info("jobs"); i.Ready != 1 || i.Leased != 0 {
		t.Errorf("given back: %+v", i)
	}
	item = c.pop("pq.jobs.pop.min", "", "PQ-Confirm", "1h")
	if i := c.info("jobs"); i.Ready != 0 || i.Leased != 1 {
		t.Errorf("popped again: %+v", i)
	}
	c.ask(item.Reply, "+ACK")
	if i := c.info("jobs"); i.Ready != 0 || i.Leased != 0 {
		t.Errorf("confirmed: %+v", i)
	}

	// The queue's own lease counts, also in one transaction with others.
	c.ask("pq.leased.admin.config", `{"lease":"2h"}`)
	for range 4 {
		c.push("pq.leased.push", "x")
	}
	for _, options := range [][]string{{"PQ-Confirm", "1h"}, {"PQ-Confirm", "1h", "Nats-Msg-Id", "i"}, {"PQ-Confirm", "1h", "Nats-Msg-Id", "i", "PQ-Repeat", "true"}} {
		item = c.pop("pq.leased.pop.min", "", options...)
		if item.Header["PQ-Confirm"] != nil || lease(t, c.raw(item.Reply, "+WPI")) != 2*time.Hour {
			t.Errorf("%v from a queue with a lease: %v", options, item.Header)
		}
	}
}

// Pops that wait are told apart: which of them are confirmed, and which are not.
func TestWaitingPopsInTwoSteps(t *testing.T) {
	t.Parallel()
	c := serve(t)
	var waiting []answers
	for i, confirm := range []string{"", "1h", "2h", ""} {
		header := []string{"PQ-Wait", "1m"}
		if confirm != "" {
			header = append(header, "PQ-Confirm", confirm)
		}
		waiting = append(waiting, c.send("pq.jobs.pop.min", "", header...))
		c.waiting("jobs", i+1)
	}
	frames := strings.Repeat("0 1\nx\n", len(waiting))
	c.ask("pq.jobs.push", frames, "PQ-Bundle", "4")
	for i, want := range []time.Duration{0, time.Hour, 2 * time.Hour, 0} {
		item := c.next(waiting[i])
		if got := item.Header["PQ-Confirm"] != nil; got != (want > 0) {
			t.Errorf("pop %d: %v", i, item.Header)
		}
		if want > 0 {
			if got := lease(t, c.raw(item.Reply, "+WPI")); got != want {
				t.Errorf("pop %d is leased for %s, expected %s", i, got, want)
			}
		}
	}
	if i := c.info("jobs"); i.Leased != 2 || i.Ready != 0 {
		t.Errorf("%+v: expected the two leases", i)
	}

	// A bundle has it with each item.
	c.ask("pq.more.push", "0 1\nx\n0 1\ny\n", "PQ-Bundle", "2")
	bundle := c.ask("pq.more.pop.min", "", "PQ-Bundle", "10", "PQ-Confirm", "1h")
	if n := strings.Count(string(bundle.Data), "PQ-Confirm: "); n != 2 {
		t.Errorf("%d of 2 items are to be confirmed: %s", n, bundle.Data)
	}
}
