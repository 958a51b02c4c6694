package request

import (
	"testing"
	"time"
)

// A wall clock that is set back by more than the history has steps leaves what is there: nothing
// is counted, nor set, until it has caught up.
func TestClockIsSetBack(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_700_000_000, 0)
	var r ring
	r.set(stepOf(now), ofReady, 7)
	for _, back := range []int64{historySteps + 1, 10 * historySteps} {
		r.set(stepOf(now)-back, ofReady, 5)
		r.count(stepOf(now)-back, ofReady, 5)
	}
	later := r.past(now.Add(historyStep), ofReady)
	for i, n := range later {
		if want := map[bool]int64{true: 7}[i == len(later)-1]; n != want {
			t.Errorf("step %d: %d, expected %d", i, n, want)
		}
	}
}
