package edits

import (
	"testing"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// A change of a schedule counts the times that it had pass only if it was made. An earlier run of its transaction may have made it.
func TestTimesOfARefusedChange(t *testing.T) {
	t.Parallel()
	for _, refused := range []*failure.Failure{nil, failure.Newf(429, "the store is full")} {
		var counts request.Tally
		a := &adminSchedule{dropped: 3}
		a.Failure = refused
		a.Tally(&counts)
		if n := counts[request.ScheduleMissed]; (n == 3) != (refused == nil) || n != 0 && n != 3 {
			t.Errorf("refused for %v: %d times were missed", refused, n)
		}
	}
}
