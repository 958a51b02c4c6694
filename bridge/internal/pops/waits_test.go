package pops

import (
	"testing"
	"time"
)

// A wait is answered a little before its time is up.
func TestWaitEndsInTime(t *testing.T) {
	t.Parallel()
	came := time.Unix(1, 0)
	for wait, want := range map[time.Duration]time.Duration{
		time.Hour:              time.Hour - 10*time.Millisecond,
		100 * time.Millisecond: 90 * time.Millisecond,
		50 * time.Millisecond:  45 * time.Millisecond,
		1:                      1,
	} {
		if got := waitEnds(came, wait, false).Sub(came); got != want {
			t.Errorf("a wait of %s ends after %s, expected %s", wait, got, want)
		}
	}
	// A repetition has a transaction to do in the end.
	if got := waitEnds(came, time.Hour, true).Sub(came); got != time.Hour-100*time.Millisecond {
		t.Errorf("the wait of a repetition ends after %s", got)
	}
}
