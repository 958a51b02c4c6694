package bridge_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

// Items that fail are named, with a delay between attempts after the second failure of each, and without one while the first of them
// is tried again and again: with the reason and the worker, by info and by the metrics. An acknowledgement ends that.
func TestItemsThatFail(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	fail := func(queue string, item int, settlement string) {
		m := c.pop("pq."+queue+".pop.min", fmt.Sprintf(`{"min":%d,"max":%d}`, item, item), "PQ-Lease", "1m", "PQ-Holder", "vm-7")
		c.accepted(c.raw(m.Header.Get("PQ-Ack"), settlement))
	}
	for _, queue := range []string{"delayed", "at-once"} {
		for n := range 5 {
			c.push(fmt.Sprintf("pq.%s.push.%d", queue, n), "x")
		}
	}
	for n := range 5 {
		fail("delayed", n, `-NAK {"reason":"a timeout"}`)
		fail("delayed", n, `-NAK {"reason":"smtp 550","delay":3600000000000}`)
	}
	for n := range 18 {
		fail("at-once", n/16, `-NAK {"reason":"smtp 550"}`)
	}
	values := c.gather(c.env.Bridge.Collector())
	for queue, want := range map[string]struct {
		items, failures int
		attempt         int64
	}{"delayed": {5, 10, 3}, "at-once": {1, 18, 3}} {
		info := object[protocol.Info](c, "pq."+queue+".info", `{"history":true}`)
		e := info.Explain
		if e.Cause != protocol.CauseFailing || int(e.Failing) != want.items || e.Reason != "smtp 550" || e.Holder != "vm-7" || e.Attempt != want.attempt || e.MaxDeliveries != 16 {
			t.Errorf("%s: %+v, expected %+v", queue, e, want)
		}
		if e.Until.IsZero() != (queue == "at-once") {
			t.Errorf("%s: the next attempt is at %s", queue, e.Until)
		}
		if info.Rates.Nack <= 0 || info.History == nil || len(info.History.Nacked) != 60 {
			t.Errorf("%s: rates %+v and history %+v, expected failures", queue, info.Rates, info.History)
		}
		if got := values["pq_queue_failures_total{queue="+queue+"}"]; got != float64(want.failures) {
			t.Errorf("%s: %v failures are counted, expected %d", queue, got, want.failures)
		}
		if values["pq_queue_cause{cause=failing,queue="+queue+"}"] != 1 {
			t.Errorf("%s: its cause among the metrics is not failing", queue)
		}
	}
	m := c.pop("pq.at-once.pop.min", "", "PQ-Lease", "1m")
	c.accepted(c.raw(m.Header.Get("PQ-Ack"), "+ACK"))
	if e := c.explain("at-once"); e.Cause == protocol.CauseFailing {
		t.Errorf("after an acknowledgement: %+v", e)
	}

	// What was acknowledged in a queue that was deleted says nothing of one that gets its name.
	object[protocol.Named](c, "pq.at-once.admin.delete", "")
	c.push("pq.at-once.push.0", "x")
	for range 2 {
		fail("at-once", 0, `-NAK {"reason":"smtp 550"}`)
	}
	if e := c.explain("at-once"); e.Cause != protocol.CauseFailing {
		t.Errorf("a queue that has the name of a deleted one: %+v", e)
	}
}
