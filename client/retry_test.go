package client

import (
	"fmt"
	"testing"
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
