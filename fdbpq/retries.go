package fdbpq

import (
	"fmt"
	"time"
)

// fate is what becomes of an item whose lease has ended.
type fate struct {
	due  int64  // store time from which on it is ready; 0: at once
	dead string // why it dies, if it can; "": it does not
}

// retries ends leases without success.
type retries struct{ *queueTx }

// end counts a lease that ends, has the item remember how, and says what becomes of it.
func (r retries) end(l *located, e ending) (f fate, err error) {
	now, err := r.now()
	if err != nil {
		return fate{}, err
	}
	e.at = min(now, l.due)
	if !e.unused {
		attemptLog{r.queueTx}.record(l, &e)
	}
	interrupted := countEnding(l, e.outcome)
	if e.unused && !interrupted {
		if err := (rates{r.queueTx}).giveBack(l); err != nil {
			return fate{}, err
		}
	}
	switch e.outcome {
	case OutcomeExpired:
	case OutcomeRevoked:
		l.since = takenAway
	default:
		l.since = givenBack
	}
	switch {
	case e.outcome == OutcomeNack && reached(r.state.config.MaxDeliveries, l.tries):
		f.dead = DeadMaxDeliveries
	case interrupted && reached(r.state.config.mostInterruptions(), l.interruptions):
		f.dead = DeadInterruptions
	}
	var away time.Duration
	switch {
	case e.delay != nil:
		away = *e.delay
	case e.outcome == OutcomeNack:
		away = leases{r.queueTx}.backoff(l, l.tries)
	case e.outcome == OutcomeExpired:
		away = leases{r.queueTx}.backoff(l, l.interruptions)
	}
	if away > 0 {
		f.due = e.at + int64(away)
	}
	return f, nil
}

// reached reports whether a number has reached a limit, 0 for none.
func reached(limit, n int64) bool { return limit > 0 && n >= limit }

// endLease ends a lease without success. It returns the item as it is then, nil if it has left the
// queue.
func (r retries) endLease(l *located, e ending) (*located, error) {
	f, err := r.end(l, e)
	if err != nil {
		return nil, err
	}
	return leases{r.queueTx}.putBack(l, f)
}

// runOut returns an item whose lease has run out.
func (r retries) runOut(l *located) error {
	_, err := r.takeBack(EventLeaseLost, l, ending{outcome: OutcomeExpired})
	return err
}

// takeBack ends a lease without its holder, and says so. It returns the item as it is then, nil
// if it has left the queue.
func (r retries) takeBack(kind EventType, l *located, e ending) (*located, error) {
	f, err := r.end(l, e)
	if err != nil {
		return nil, err
	}
	n := len(r.events)
	r.emit(Event{
		Type: kind, ID: idOf(l), Priority: l.place.priority, Deliveries: l.deliveries(), Endings: endingsOf(l), Reason: e.reason, Holder: l.holder,
	})
	back, err := leases{r.queueTx}.putBack(l, f)
	if back != nil {
		r.events[n].NotBefore = back.due
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

// putBack returns an item to its queue when its lease has ended, or moves it to the dead-letter queue.
// It returns the item as it is then, nil if it has left the queue.
func (ls leases) putBack(l *located, f fate) (*located, error) {
	if f.dead != "" {
		if taken, err := (deadLetters{ls.queueTx}).take(l, f.dead); taken || err != nil {
			return nil, err
		}
	}
	return ls.reinstate(l, f.due)
}

// reinstate makes an item ready again, or delays it until a time that is not past.
func (ls leases) reinstate(l *located, due int64) (*located, error) {
	if due > 0 || l.expires != 0 {
		now, err := ls.now()
		if err != nil {
			return nil, err
		}
		if l.expires != 0 && l.expires <= now {
			return nil, expiries{ls.queueTx}.expire(l)
		}
		if due <= now {
			due = 0
		}
	}
	back := *l
	back.extraAnswers, back.since, back.holder = 0, min(l.since, 0), ""
	ls.change(l, back.at(l.returnPriority).from(due))
	return &back, nil
}

// due returns an item to its queue when its lease has run out.
func (r retries) due(t timer) error {
	row, err := r.tx.Get(r.key(spaceLeased, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceLeased, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	r.txSize += itemTxSize(r.name, &l.envelope, false)
	return r.runOut(l)
}
