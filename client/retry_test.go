package client

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// A request that a killed node leaves unanswered is repeated several times while another node takes over, and later
// less and less often, since a slow bridge may need more time.
func TestAttemptsAreCloseDuringATakeover(t *testing.T) {
	t.Parallel()
	var soon, all int
	for wait, at := firstAttempt, firstAttempt; at < DefaultTimeout; at += wait {
		if all++; at < 2*time.Second {
			soon++
		}
		next := longer(wait)
		if next <= wait {
			t.Fatalf("an attempt of %v follows one of %v", next, wait)
		}
		wait = next
	}
	if soon < 3 || all > 8 {
		t.Errorf("%d repetitions within two seconds, %d within %v: expected 3 or more, and 8 at most", soon, all, DefaultTimeout)
	}
}

// Where no bridge is, another one may take over at any time. One that refuses is left alone.
func TestDelayWithoutABridge(t *testing.T) {
	t.Parallel()
	away := &Error{cause: fmt.Errorf("nobody: %w", nats.ErrNoResponders)}
	busy := &Error{}
	var r retry
	for range 50 {
		r.allowed(patience{}, away)
		if d := r.delay(); d > maxAwayDelay*3/2 {
			t.Fatalf("without a bridge the client waits %v", d)
		}
	}
	for _, longest := 0, time.Duration(0); longest < maxRetryDelay; longest = max(longest, r.delay()) {
		r.allowed(patience{}, busy)
	}
}

// A bridge that has no room for waits ends them at once. It is asked again after pauses that grow, and without one when it has waited.
func TestPausesBetweenEarlyEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var r retry
		pause := func(lasted time.Duration) time.Duration {
			began := time.Now()
			r.early(t.Context(), began.Add(-lasted))
			return time.Since(began)
		}
		for _, want := range []time.Duration{20, 40, 80, 160, 320, 640, 1000, 1000} {
			want *= time.Millisecond
			if got := pause(999 * time.Millisecond); got < want/2 || got >= want*3/2 {
				t.Errorf("a pause of %s, expected about %s", got, want)
			}
		}
		if got := pause(time.Second); got != 0 {
			t.Errorf("a pause of %s behind a wait of a second", got)
		}
	})
}
