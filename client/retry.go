package client

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// retry counts how often a request was refused, and since when.
type retry struct {
	refusals int
	since    time.Time
	longest  time.Duration // delay; 0: maxRetryDelay
}

// allowed counts a refusal and reports whether the request may be sent again.
func (r *retry) allowed(p patience, why *Error) bool {
	first := r.refusals == 0
	if r.refusals++; first {
		r.since = time.Now()
	}
	r.longest = 0
	if errors.Is(why, nats.ErrNoResponders) {
		r.longest = maxAwayDelay
	}
	if p.refused > 0 && time.Since(r.since) >= p.refused {
		return false
	}
	if first && p.onRefusal != nil {
		p.onRefusal(why)
	}
	return true
}

// The delay before a request is sent again grows with every refusal. Without a bridge it grows less: another one may take
// over at any time, and the question costs none of them anything.
const (
	minRetryDelay = 20 * time.Millisecond
	maxRetryDelay = time.Second
	maxAwayDelay  = 150 * time.Millisecond
)

// delay is how long to wait before the request is sent again.
func (r *retry) delay() time.Duration {
	return backoff(r.refusals, minRetryDelay, cmp.Or(r.longest, maxRetryDelay))
}

// wait waits for the delay, or until ctx ends.
func (r *retry) wait(ctx context.Context) error { return pause(ctx, r.delay()) }

// early waits before a wait begins again that was asked for at a time, and that its bridge has ended soon afterwards: it has no room for
// waits, and asking it all the time would give it none.
func (r *retry) early(ctx context.Context, asked time.Time) {
	if time.Since(asked) < maxRetryDelay {
		r.refusals++
		_ = r.wait(ctx) // whoever asks again looks at ctx
	}
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// backoff is the pause after the nth failure: about twice as long as the pause before, and random, so that requests
// that failed together are not repeated together.
func backoff(n int, first, last time.Duration) time.Duration {
	d := first
	for ; n > 1 && d < last; n-- {
		d *= 2
	}
	d = min(d, last)
	return d/2 + rand.N(d)
}

// again reports whether the request may be sent again after this answer: nothing was done, or doing it twice has
// the same effect as doing it once.
func (e *Error) again(repeatable bool) bool {
	switch e.Code {
	case protocol.CodeBusy, protocol.CodeUnavailable:
		return true
	case protocol.CodeConflict:
		return e.Reason == "" // otherwise trying again does not help
	case protocol.CodeUnknownResult:
		return repeatable && e.cause == nil
	}
	return false
}
