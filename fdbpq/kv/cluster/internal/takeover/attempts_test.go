package takeover

import (
	"testing"
	"time"
)

// Behind each failure a member waits longer, up to a bound, and less to replace a lost one. When another member was
// heard it begins anew.
func TestAttempts(t *testing.T) {
	t.Parallel()
	const pause = time.Second
	now := time.Now()
	for _, c := range []struct {
		lost            bool
		failures        int
		atLeast, atMost time.Duration
	}{
		{false, 1, pause, pause * 3 / 2},
		{false, 2, 2 * pause, 3 * pause},
		{false, 9, 8 * pause, failedAtMost},
		{true, 1, RankPause, RankPause * 3 / 2},
		{true, 9, failedAtMost, failedAtMost * 3 / 2},
	} {
		a := NewAttempts(pause)
		if !a.May(now) || a.Waited(pause-1) || !a.Waited(2*pause) {
			t.Fatal("expected the first attempt behind a silence of one pause to one and a half")
		}
		for range c.failures {
			a.Failed(c.lost, now)
		}
		if a.May(now.Add(c.atLeast-1)) || !a.May(now.Add(c.atMost+1)) {
			t.Errorf("behind %d failures, to replace a lost member %v: expected the next attempt behind %v to %v", c.failures, c.lost, c.atLeast, c.atMost)
		}
		if a.Reset(); !a.May(now) {
			t.Error("expected no pause once another member was heard")
		}
	}
}

// A log that ends too early has lost entries only once three looks in ten seconds have shown the same end.
func TestLossHasToLast(t *testing.T) {
	t.Parallel()
	now := time.Now()
	const waits = "waiting for the log to show it"
	var l Loss
	for i, c := range []struct {
		end  uint64
		at   time.Duration
		lost bool
	}{
		{5, 0, false}, {5, SteadyFor, false}, {5, SteadyFor, true},
		{4, SteadyFor, false}, {4, SteadyFor + 1, false}, {4, SteadyFor + 2, false}, {4, 2 * SteadyFor, true},
	} {
		if got := l.Verdict(c.end, now.Add(c.at)); (got != waits) != c.lost {
			t.Errorf("look %d, at an end of %d: %q", i, c.end, got)
		}
	}
}
