package request

import "testing"

// A step that is older than those of the history leaves them as they are.
func TestOldStep(t *testing.T) {
	t.Parallel()
	const step = 28_333_333
	var r ring
	r.set(step, ofReady, 7)
	for _, back := range []int64{historySteps + 1, 10 * historySteps} {
		r.set(step-back, ofReady, 5)
		r.count(step-back, ofReady, 5)
	}
	later := r.past(step+1, ofReady)
	for i, n := range later {
		if want := map[bool]int64{true: 7}[i == len(later)-1]; n != want {
			t.Errorf("step %d: %d, expected %d", i, n, want)
		}
	}
}
