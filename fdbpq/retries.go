package fdbpq

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// retries ends leases without success.
type retries struct{ *queueTx }

// end counts a lease that ends, has the item remember how, and says what becomes of it.
func (r retries) end(l *layout.Item, e ending) (f fate, err error) {
	now, err := r.now()
	if err != nil {
		return fate{}, err
	}
	e.at = min(now, l.Due)
	if !e.unused {
		if err := r.attemptLog.record(l, &e); err != nil {
			return fate{}, err
		}
	}
	interrupted := countEnding(l, e.outcome)
	if e.unused && !interrupted {
		if err := r.rates.giveBack(l); err != nil {
			return fate{}, err
		}
	}
	switch e.outcome {
	case OutcomeExpired:
	case OutcomeRevoked:
		l.Since = layout.TakenAway
	default:
		l.Since = layout.GivenBack
	}
	switch {
	case e.outcome == OutcomeNack && reached(r.state.config.MaxDeliveries, l.Tries):
		f.dead = DeadMaxDeliveries
	case interrupted && reached(r.state.config.mostInterruptions(), l.Interruptions):
		f.dead = DeadInterruptions
	}
	var away time.Duration
	switch {
	case e.delay != nil:
		away = *e.delay
	case e.outcome == OutcomeNack:
		away = r.leases.backoff(l, l.Tries)
	case e.outcome == OutcomeExpired:
		away = r.leases.backoff(l, l.Interruptions)
	}
	if away > 0 {
		f.due = e.at + int64(away)
	}
	return f, nil
}

// reached reports whether a number has reached a limit; 0 is no limit.
func reached(limit, n int64) bool { return limit > 0 && n >= limit }

// endLease ends a lease without success. It returns the item as it is then, nil for an item that has left the
// queue.
func (r retries) endLease(l *layout.Item, e ending) (*layout.Item, error) {
	f, err := r.end(l, e)
	if err != nil {
		return nil, err
	}
	return r.leases.putBack(l, f)
}

// runOut returns an item whose lease has run out.
func (r retries) runOut(l *layout.Item) error {
	_, err := r.takeBack(EventLeaseLost, l, ending{outcome: OutcomeExpired})
	return err
}

// revoke ends the lease of an item, and returns the item as it is then, nil for an item that has left the
// queue.
func (r retries) revoke(l *layout.Item, reason string, delay *time.Duration) (*layout.Item, error) {
	l.Fence++
	return r.takeBack(EventRevoked, l, ending{outcome: OutcomeRevoked, reason: reason, delay: delay})
}

// takeBack ends a lease without its holder, and says so. It returns the item as it is then, nil
// for an item that has left the queue.
func (r retries) takeBack(kind EventType, l *layout.Item, e ending) (*layout.Item, error) {
	f, err := r.end(l, e)
	if err != nil {
		return nil, err
	}
	n := len(r.work.events)
	r.emit(Event{
		Type: kind, ID: idOf(l), Priority: l.Place.Priority, Deliveries: l.Deliveries(), Endings: endingsOf(l), Reason: e.reason, Holder: l.Holder,
	})
	back, err := r.leases.putBack(l, f)
	if back != nil {
		r.work.events[n].NotBefore = back.Due
	}
	return back, err
}

// checkRetry refuses a delay that is out of bounds.
func checkRetry(delay *time.Duration) error {
	if delay != nil && (*delay < 0 || *delay > MaxDelay) {
		return fmt.Errorf("delay of %s: allowed are 0s to %s", *delay, MaxDelay)
	}
	return nil
}
