package bridge_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// together has the bridge receive requests while the commit of a pop is blocked, so
// that they are one batch.
func (c *client) together(db *slow, requests ...func() answers) (first answers, all []answers) {
	c.Helper()
	first, all, release := c.gathered(db, func() answers { return c.send("pq.jobs.pop.min", "") }, requests...)
	release()
	return first, all
}

// gathered is the same, behind another request than a pop. The batch begins with the
// release.
func (c *client) gathered(db *slow, held func() answers, requests ...func() answers) (first answers, all []answers, release func()) {
	c.Helper()
	c.inFlight("work", 0)
	c.inFlight("settlement", 0)
	release = db.blockNext()
	first = held()
	db.awaitBlocked(c)
	for _, send := range requests {
		all = append(all, send())
	}
	testenv.AwaitValue(c, "requests in flight", float64(1+len(requests)), func() float64 {
		m := c.own()
		return m["pq_requests_in_flight{kind=work}"] + m["pq_requests_in_flight{kind=settlement}"]
	})
	return first, all, release
}

// lease is for how long an item is leased: about, since some time has passed.
func lease(t *testing.T, m *nats.Msg) time.Duration {
	t.Helper()
	at := m.Header.Get("PQ-Lease-Expires")
	if at == "" {
		return 0
	}
	ends, err := time.Parse(time.RFC3339Nano, at)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(ends).Round(time.Hour)
}

// Pops that one transaction serves need not be alike: each gets its item, from its
// end and its band, for as long as it asked.
func TestDifferentPopsTogether(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	acks := c.leases(1) // for an hour, of priority 5
	for i := range 12 {
		c.push(fmt.Sprintf("pq.jobs.push.%d", i), fmt.Sprint(i))
	}
	ask := func(subject, body string, header ...string) func() answers {
		return func() answers { return c.send(subject, body, header...) }
	}
	steps := []struct {
		send  func() answers
		want  string
		lease time.Duration
	}{
		{ask("pq.jobs.pop.min", "", "PQ-Lease", "3h"), "1", 3 * time.Hour},
		{ask("pq.jobs.pop.min", "", "PQ-Lease", "6h"), "2", 6 * time.Hour},
		{ask("pq.jobs.pop.min", ""), "3", 0},
		{ask("pq.jobs.peek.min", "", "PQ-Wait", "1h"), "4", 0},
		{ask("pq.jobs.pop.min", "", "PQ-Band", "8..8"), "8", 0},
		{ask("pq.jobs.pop.min", "", "PQ-Lease", "1h"), "4", time.Hour},
		{ask("pq.jobs.pop.min", "", "PQ-Lease", "1h"), "5", time.Hour},
		{ask(acks[0], "+NXT"), "6", time.Hour},
		{ask("pq.jobs.pop.min", ""), "7", 0},
		{ask("pq.jobs.pop.max", ""), "11", 0},
		{ask("pq.jobs.pop.min", "", "Nats-Msg-Id", "id"), "9", 0},
	}
	var requests []func() answers
	for _, step := range steps {
		requests = append(requests, step.send)
	}
	first, all := c.together(db, requests...)
	if m := c.next(first); string(m.Data) != "0" {
		t.Errorf("the first pop got %q", m.Data)
	}
	for i, step := range steps {
		m := c.next(all[i])
		if got := lease(t, m); string(m.Data) != step.want || got != step.lease {
			t.Errorf("request %d: %q for %s, %v; expected %q for %s", i, m.Data, got, m.Header, step.want, step.lease)
		}
	}
	if m := c.pop("pq.jobs.pop.min", "", "Nats-Msg-Id", "id"); string(m.Data) != "9" {
		t.Errorf("the pop repeated by its id got %q", m.Data)
	}
	if i := c.info("jobs"); i.Leased != 5 || i.Ready != 1 {
		t.Errorf("%d items are leased and %d ready, expected 5, without the one that +NXT acknowledged, and 1", i.Leased, i.Ready)
	}
}

// A transaction serves pops until it has as many items, or bytes, as it may.
func TestPopsOfOneTransaction(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		what         string
		limits       bridge.Limits
		pops         []string // what they ask for
		transactions float64
	}{
		{"bytes", bridge.Limits{BatchBytes: 100}, []string{"", "", "", ""}, 2},
		{"items", bridge.Limits{BatchRequests: 3}, []string{"3", ""}, 2},
		{"a batch behind an item", bridge.Limits{}, []string{"", "3"}, 2},
		{"everything fits", bridge.Limits{}, []string{"3", "", "", ""}, 1},
	} {
		t.Run(tc.what, func(t *testing.T) {
			t.Parallel()
			c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true, Limits: tc.limits})
			for range 10 {
				c.push("pq.jobs.push.5", fmt.Sprintf("%060d", 0))
			}
			before, _ := c.transactions()
			var requests []func() answers
			for _, body := range tc.pops {
				requests = append(requests, func() answers { return c.send("pq.jobs.pop.min", body) })
			}
			first, all := c.together(db, requests...)
			for _, answer := range append(all, first) {
				if m := c.next(answer); len(m.Data) != 60 {
					t.Errorf("popped %q, %v", m.Data, m.Header)
				}
			}
			c.inFlight("work", 0)
			if after, _ := c.transactions(); after-before != 1+tc.transactions {
				t.Errorf("%g transactions behind the first one, expected %g", after-before-1, tc.transactions)
			}
		})
	}
}

// A pop that is repeated gets its item again, also behind a pop that found none.
func TestRepeatedPopBehindOneThatFoundNothing(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	c.push("pq.jobs.push", "x")
	c.pop("pq.jobs.pop.min", "", "Nats-Msg-Id", "id")
	c.push("pq.jobs.push", "y")
	_, all := c.together(db, func() answers { return c.send("pq.jobs.pop.min", "") },
		func() answers { return c.send("pq.jobs.pop.min", "", "Nats-Msg-Id", "id") })
	c.refused(c.next(all[0]), 404, "empty")
	if m := c.next(all[1]); string(m.Data) != "x" {
		t.Errorf("the repeated pop got %q, %v", m.Data, m.Header)
	}
}

// One pop that cannot be answered does not fail those beside it.
func TestOnePopFailsAlone(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	for i := range 4 {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	c.tooLarge()
	pop := func(end string) func() answers {
		return func() answers { return c.send("pq.jobs.pop."+end, "") }
	}
	first, all := c.together(db, pop("max"), pop("min"), pop("max"), pop("min"))
	for i, answer := range append([]answers{first}, all[1], all[3]) {
		if m := c.next(answer); string(m.Data) != fmt.Sprint(i) {
			t.Errorf("popped %q, %v; expected %d", m.Data, m.Header, i)
		}
	}
	c.refused(c.next(all[0]), 413)
	c.refused(c.next(all[2]), 413)
}

// However many pops wait, a new one does not overtake them.
func TestNewPopsStandBehindAllThatWait(t *testing.T) {
	t.Parallel()
	c, db := slowly(t, faulty(t), bridge.Options{Exclusive: true})
	const waiting, items = 300, 266 // 128 of them are served at a time
	c.ask("pq.jobs.admin.config", "{}")
	all := c.waitInLine(waiting)
	c.ask("pq.jobs.admin.pause", "")
	for i := range items {
		c.push("pq.jobs.push.5", fmt.Sprint(i))
	}
	resume := db.blockNext()
	resumed := c.send("pq.jobs.admin.resume", "")
	db.awaitBlocked(t)
	serve := db.blockNext()
	resume()
	c.next(resumed)
	db.awaitBlocked(t) // with the pops that have waited longest
	late := c.send("pq.jobs.pop.min", "")
	c.inFlight("work", 1)
	serve()
	for range items {
		if m := c.next(all); m.Reply != "" || m.Header.Get("PQ-Id") == "" {
			t.Fatalf("a pop that waits got %q, %v", m.Data, m.Header)
		}
	}
	c.refused(c.next(late), 404, "empty")
}
