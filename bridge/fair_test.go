package bridge_test

import (
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// Weights travel in bundles.
func TestWeightInBundle(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"fair":"priority"}`)
	frame := func(headers, payload string) []byte {
		return protocol.AppendFrame(nil, []byte(headers), []byte(payload))
	}
	body := string(frame("PQ-Key: a\nPQ-Weight: 5\n", "x")) + string(frame("PQ-Key: b\n", "y"))
	c.push("pq.jobs.push", body, "PQ-Bundle", "2")
	if a, b := c.keyInfo("a").Weight, c.keyInfo("b").Weight; a != 5 || b != 1 {
		t.Errorf("weights %d and %d", a, b)
	}
	c.refusedPush(c.ask("pq.jobs.push", string(frame("PQ-Weight: 5\n", "x")), "PQ-Bundle", "1"), 400, "")
}

// A queue says when its keys take turns. Meanwhile pops have one end, and no band.
func TestFairReady(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.push("pq.jobs.push.5", "x", "PQ-Key", "a")
	c.configure(`{"fair":"0,100"}`)
	for ready := false; !ready; { // it converts in the background
		ready = object[protocol.Info](c, "pq.jobs.info", "").FairReady
	}
	c.refused(c.ask("pq.jobs.pop.max", ""), 409, "only_min")
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Band", "0..99"), 409, "only_min")
	c.configure(`{"fair":""}`)
	if m := c.pop("pq.jobs.pop.max", ""); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}
