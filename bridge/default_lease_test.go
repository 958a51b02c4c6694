package bridge_test

import (
	"fmt"
	"testing"
	"time"
)

// A pop without a lease of its own gets its answer again when the queue's default lease
// has changed meanwhile: the same items, under the lease of the first answer.
func TestRepeatedPopAfterNewDefaultLease(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for i, tc := range []struct {
		before, after string
		lease         time.Duration // of the first answer
	}{
		{"0s", "1h", 0},
		{"2h", "0s", 2 * time.Hour},
		{"2h", "3h", 2 * time.Hour},
	} {
		queue := fmt.Sprint("jobs", i)
		pop, config := "pq."+queue+".pop.min", "pq."+queue+".admin.config"
		c.ask(config, fmt.Sprintf(`{"lease":%q}`, tc.before))
		c.push("pq."+queue+".push", "one")
		c.push("pq."+queue+".push", "two")
		first := c.pop(pop, "", "Nats-Msg-Id", "x")
		c.ask(config, fmt.Sprintf(`{"lease":%q}`, tc.after))
		for _, repeat := range []string{"false", "true"} {
			again := c.pop(pop, "", "Nats-Msg-Id", "x", "PQ-Repeat", repeat)
			if a, b := first.Header, again.Header; string(again.Data) != "one" || a.Get("PQ-Fence") != b.Get("PQ-Fence") || a.Get("PQ-Lease-Expires") != b.Get("PQ-Lease-Expires") {
				t.Errorf("%+v: %q, %v, then %q, %v", tc, first.Data, a, again.Data, b)
			}
			first = again
		}
		if tc.lease > 0 {
			if got := lease(t, c.raw(first.Reply, "+WPI")); got != tc.lease {
				t.Errorf("%+v: extended by %s", tc, got)
			}
		}
		// A lease of its own makes a repetition another pop.
		c.refused(c.ask(pop, "", "Nats-Msg-Id", "x", "PQ-Lease", "5h"), 400)
		if i := c.info(queue); i.Ready != 1 {
			t.Errorf("%+v: %+v", tc, i)
		}
	}
}
