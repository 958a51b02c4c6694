package bridge_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

// shares counts what the next pops of a queue get of each key, one after another.
func (c *client) shares(pops int) map[string]int {
	c.Helper()
	of := make(map[string]int)
	for range pops {
		of[c.pop("pq.jobs.pop.min", "").Header.Get("PQ-Key")]++
	}
	return of
}

// Keys take turns by weight, whatever each of them has waiting. Pushes and administrators
// set weights, and the weights of an administrator win.
func TestFairShares(t *testing.T) {
	t.Parallel()
	c := serve(t)
	c.configure(`{"fair":"priority"}`)
	for i := range 100 {
		c.push("pq.jobs.push.5", fmt.Sprint(i), "PQ-Key", "noisy")
	}
	for range 30 {
		c.push("pq.jobs.push.5", "", "PQ-Key", "three", "PQ-Weight", "3")
		c.push("pq.jobs.push.5", "", "PQ-Key", "quiet", "PQ-Weight", "9")
		c.push("pq.jobs.push.5", "")
	}
	c.setKey("quiet", `{"weight":1}`)
	if info := c.keyInfo("three"); info.Weight != 3 || info.Settings.Weight != nil {
		t.Errorf("%+v", info)
	}
	if info := c.keyInfo("quiet"); info.Weight != 1 {
		t.Errorf("%+v", info)
	}
	of := c.shares(48)
	for key, want := range map[string]int{"noisy": 8, "three": 24, "quiet": 8, "": 8} {
		if got := of[key]; got < want-1 || got > want+1 {
			t.Errorf("key %q got %d of 48, expected %d: %v", key, got, want, of)
		}
	}
	c.setKey("quiet", `{"weight":null}`)
	if info := c.keyInfo("quiet"); info.Weight != 9 {
		t.Errorf("the weight of the pushes is %d, expected 9", info.Weight)
	}
}

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

// Between classes the order is strict; within one keys take turns, and each of them goes
// by priority.
func TestFairClasses(t *testing.T) {
	t.Parallel()
	c := serve(t)
	for _, item := range []struct {
		priority int
		key      string
	}{{150, "a"}, {50, "a"}, {60, "a"}, {70, "a"}, {99, "b"}, {100, "b"}, {-5, "c"}} {
		c.push(fmt.Sprint("pq.jobs.push.", item.priority), fmt.Sprint(item.key, item.priority), "PQ-Key", item.key)
	}
	c.configure(`{"fair":"0,100"}`)
	for ready := false; !ready; { // it converts in the background
		ready = object[protocol.Info](c, "pq.jobs.info", "").FairReady
	}
	var got []string
	for range 7 {
		got = append(got, string(c.pop("pq.jobs.pop.min", "").Data))
	}
	if fmt.Sprint(got) != "[c-5 a50 b99 a60 a70 b100 a150]" && fmt.Sprint(got) != "[c-5 a50 b99 a60 a70 a150 b100]" {
		t.Errorf("%v", got)
	}
	c.push("pq.jobs.push.5", "x", "PQ-Key", "a")
	c.refused(c.ask("pq.jobs.pop.max", ""), 409, "only_min")
	c.refused(c.ask("pq.jobs.pop.min", "", "PQ-Band", "0..99"), 409, "only_min")
	c.configure(`{"fair":""}`)
	if m := c.pop("pq.jobs.pop.max", ""); string(m.Data) != "x" {
		t.Errorf("%q, %v", m.Data, m.Header)
	}
}

// Bridges that share a store share the turns, too.
func TestFairSharesOfSeveralBridges(t *testing.T) {
	t.Parallel()
	c := serve(t, bridge.Options{})
	c.second(bridge.Options{})
	c.second(bridge.Options{})
	c.configure(`{"fair":"priority"}`)
	for range 120 {
		c.key("noisy", "")
	}
	for range 40 {
		c.push("pq.jobs.push", "", "PQ-Key", "double", "PQ-Weight", "2")
		c.key("single", "")
	}
	const pops = 60
	var waits []answers
	for range pops {
		waits = append(waits, c.send("pq.jobs.pop.min", "", "PQ-Lease", "1h"))
	}
	of := make(map[string]int)
	for _, w := range waits {
		of[c.next(w).Header.Get("PQ-Key")]++
	}
	for key, want := range map[string]int{"noisy": 15, "double": 30, "single": 15} {
		if got := of[key]; got < want-3 || got > want+3 {
			t.Errorf("key %q got %d of %d, expected %d: %v", key, got, pops, want, of)
		}
	}
}
