package bridge_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// A pop that is refused is answered also while others wait, before it or behind it, and
// does not keep them from their items.
func TestRefusedPopBesideWaitingOnes(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push.0", "one")
	first := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s", "PQ-Band", "7..7")
	c.waiting("jobs", 1)
	second := c.send("pq.jobs.pop.min", "", "PQ-Wait", "100s", "PQ-Band", "8..8", "Nats-Msg-Id", "waits")
	c.waiting("jobs", 2)
	c.pop("pq.jobs.pop.min", "", "Nats-Msg-Id", "x")
	c.refused(c.raw("pq.jobs.pop.max", "", "Nats-Msg-Id", "x"), 400)
	c.ask("pq.jobs.admin.config", `{"dedup_limit":1}`)
	c.refused(c.raw("pq.jobs.pop.min", "", "Nats-Msg-Id", "y"), 429, "remembered")
	c.pushPast(fdbpq.NewItem{Payload: make([]byte, 2<<20)})
	c.refused(c.raw("pq.jobs.pop.min", "", "PQ-Band", "0..0"), 413)
	// The one that waits meets the limit when its item arrives.
	c.push("pq.jobs.push.8", "two")
	c.refused(c.next(second), 429, "remembered")
	c.push("pq.jobs.push.7", "three")
	if m := c.next(first); string(m.Data) != "three" {
		t.Errorf("the pop that waited got %q, %v", m.Data, m.Header)
	}
}
