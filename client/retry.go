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

// patience has the time limits of requests.
type patience struct {
	timeout time.Duration // of an operation whose context has no deadline
	refused time.Duration // how long a refused request is repeated; 0: until the context ends
	attempt time.Duration // how long to wait for an answer before asking again, at first
	margin  time.Duration // for the answer to a waiting pop to arrive before the context ends
	confirm time.Duration // how long an item that is popped for good stays leased until it is acknowledged
	extend  int           // how often a lease is extended within its length

	onRefusal func(error) // nil: not called
}

// late is how long to wait for an answer that another attempt does not bring sooner, at first: that of a pop that waits, and
// that of a question that is asked once. Given up, a late answer costs more than the wait for it: it may be a lease.
func (p patience) late() time.Duration { return lateFactor * p.attempt }

const (
	firstAttempt = 400 * time.Millisecond
	lateFactor   = 5
)

// waitMargin leaves time for the answer to arrive before the context ends. An item that
// arrives later is lost, or leased in vain.
const waitMargin = 100 * time.Millisecond

// wait is a wait for something that the bridge does not have yet. It is made of requests that wait.
type wait struct {
	most    time.Duration // 0: none
	started time.Time
	margin  time.Duration // for an answer to arrive before the context ends
}

func (p patience) begin(most time.Duration) wait { return wait{most, time.Now(), p.margin} }

// left is how much longer the next request may wait, so that its answer still arrives in time.
func (w wait) left(ctx context.Context) time.Duration {
	if w.most == 0 {
		return 0
	}
	return max(w.rest(ctx), time.Millisecond)
}

func (w wait) rest(ctx context.Context) time.Duration {
	left := w.most - time.Since(w.started)
	if deadline, has := ctx.Deadline(); has {
		until := time.Until(deadline)
		left = min(left, until-min(w.margin, until/2))
	}
	return left
}

// boundBy reports whether the end of the context ends the wait.
func (w wait) boundBy(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return has && time.Until(deadline) < w.most-time.Since(w.started)
}

// goesOn reports whether there is time for another request after one that nothing came for: bridges let some clients wait for less time
// than they ask for.
func (w wait) goesOn(ctx context.Context) bool { return w.rest(ctx) > min(w.most/5, 2*waitMargin) }

// addTime adds without overflow: a caller may ask for the longest wait.
func addTime(a, b time.Duration) time.Duration {
	if a > forever-b {
		return forever
	}
	return a + b
}

// forever is the longest wait.
const forever = time.Duration(1<<63 - 1)

// takeoverFor is how long the attempts follow each other closely: what one node leaves unanswered, the node that takes
// over answers.
const takeoverFor = time.Second

// longer returns how long to wait for the next answer. In the end the wait doubles, because a slow bridge may need more
// time.
func longer(wait time.Duration) time.Duration {
	if wait < takeoverFor {
		return wait + wait/4
	}
	return min(2*wait, time.Minute)
}
