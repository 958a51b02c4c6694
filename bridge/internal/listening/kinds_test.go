package listening

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// The inboxes of all connections with one prefix are one kind.
func TestKinds(t *testing.T) {
	t.Parallel()
	const a, b = "mZHK3ftDlc1XnSaNVxxDOh", "AbCdEfGhIjKlMnOpQrStUv" // as libraries choose them
	for reply, want := range map[string]kind{
		"_INBOX." + a:                         {"_INBOX", 1},
		"_INBOX." + a + ".x":                  {"_INBOX", 2},
		"_INBOX." + a + "." + b:               {"_INBOX", 2},
		"_INBOX.worker." + a + ".7":           {"_INBOX.worker", 2},
		"_INBOX.team.worker." + a + ".w." + b: {"_INBOX.team.worker", 3},
		"_INBOX.worker.one.7":                 {"_INBOX.worker", 2},
		"_INBOX.one.7":                        {"_INBOX", 2},
		"_INBOX.one":                          {"_INBOX", 1},
		a + "." + b:                           {a, 1},
		"answers":                             {"answers", 0},
	} {
		if got := kindOf(reply); got != want {
			t.Errorf("%s: %+v, expected %+v", reply, got, want)
		}
	}
	k := kind{"_INBOX.worker", 2}
	if one, other := k.inbox(), k.inbox(); one == other || !strings.HasPrefix(one, "_INBOX.worker.") || kindOf(one) != k {
		t.Errorf("inboxes that nobody has: %s, %s", one, other)
	}
}

// Queues share the places for kinds: a queue with less than its share gets the place of a kind that clients of the queue
// with the most have not had for longest.
func TestQueuesShareKinds(t *testing.T) {
	t.Parallel()
	s := NewSight(nil)
	k, now := &s.heard, time.Now()
	add := func(queue string, i int) kind {
		now = now.Add(1)
		one := kind{fmt.Sprint(queue, i), 2}
		k.add(kindAt{one, queue}, now)
		return one
	}
	for i := range 2 * mostHeard {
		add("flood", i)
	}
	if len(k.of) != mostHeard || !k.crowded("flood") || k.crowded("jobs") {
		t.Errorf("%d kinds, flood crowded: %t, jobs crowded: %t", len(k.of), k.crowded("flood"), k.crowded("jobs"))
	}
	first := add("jobs", 0)
	if k.of[first] == nil || k.of[kind{"flood0", 2}] != nil || k.of[kind{"flood1", 2}] == nil || len(k.of) != mostHeard {
		t.Error("expected the oldest kind of the flood to make room")
	}
	for i := range 2 * mostHeard {
		add("jobs", i+1)
		add("flood", i+mostHeard)
	}
	if k.of[first] == nil || k.counts["jobs"] != mostHeard/2 || k.counts["flood"] != mostHeard/2 || !k.crowded("jobs") {
		t.Errorf("%v, expected halves", k.counts)
	}
	if left := k.since(k.of[first].used); len(left) != len(k.of) || k.of[first] == nil {
		t.Errorf("%d kinds are left, and %d remembered", len(left), len(k.of))
	}
	if left := k.since(now.Add(1)); len(left) > 0 || len(k.of) > 0 || len(k.counts) > 0 || k.most != 0 {
		t.Errorf("%v is left of %v", left, k)
	}
}

// Queues take turns, and no kind is chosen twice.
func TestTurns(t *testing.T) {
	t.Parallel()
	of := map[string]map[kind]bool{"a": {}, "b": {{"b", 2}: true, {"c", 2}: true}, "c": {{"c", 2}: true}}
	for i := range 1000 {
		of["a"][kind{fmt.Sprint("a", i), 2}] = true
	}
	chosen := turns(of, 10)
	if len(chosen) != 10 {
		t.Fatalf("%d are chosen, expected 10", len(chosen))
	}
	seen := make(map[kind]bool)
	for _, one := range chosen {
		seen[one.kind] = true
	}
	if len(seen) != 10 || !seen[kind{"b", 2}] || !seen[kind{"c", 2}] {
		t.Errorf("chosen: %v", chosen)
	}
	if rest := turns(map[string]map[kind]bool{"a": {{"x", 1}: true}}, 10); len(rest) != 1 {
		t.Errorf("chosen: %v", rest)
	}
}
