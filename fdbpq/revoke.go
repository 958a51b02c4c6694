package fdbpq

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ErrNotLeased: the item has no lease that could be taken away.
var ErrNotLeased = errors.New("the item is not leased")

// Revocation says which lease of an item ends, and what becomes of the item.
type Revocation struct {
	Fence  int64          // of the lease; 0: whichever it is
	Delay  *time.Duration // until the item is ready again; nil: what the queue's backoff says
	Reason string         // for the record of the attempt
}

// Revoked is the result of a Revoke.
type Revoked struct {
	Found      bool  // the queue has the item
	Err        error // the lease was not taken away: ErrNotLeased, or *LostError for one with another fence
	Priority   int64
	Deliveries int64
	State      State // of the item; "": it has left the queue
	Dead       bool  // as a dead letter
	Events     []Event
}

// Revoke takes a lease away. The item's fence grows, so the holder's settlements return LostTaken
// from then on. The lease counts as a delivery. What becomes of the item is the same as when the
// lease runs out now.
func (q Queue) Revoke(tx kv.Tx, id ID, r Revocation) (Revoked, error) {
	if err := checkRetry(r.Delay); err != nil {
		return Revoked{}, err
	}
	qtx, l, err := q.beginWithItem(tx, id)
	if err != nil || l == nil {
		return Revoked{}, err
	}
	revoked := Revoked{Found: true, Priority: l.returnPriority, Deliveries: l.deliveries}
	if revoked.Err = l.revocable(r.Fence); revoked.Err != nil {
		return revoked, nil
	}
	now, err := qtx.now()
	if err != nil {
		return Revoked{}, err
	}
	l.fence++
	back, err := retries{qtx}.takeBack(EventRevoked, l, ending{outcome: OutcomeRevoked, reason: r.Reason, delay: r.Delay, at: min(now, l.due)})
	if err != nil {
		return Revoked{}, err
	}
	if back != nil {
		revoked.State = back.state
	}
	revoked.Events = qtx.happened()
	revoked.Dead = back == nil && revoked.Events[len(revoked.Events)-1].Type == EventDead
	return revoked, qtx.done()
}

// revocable returns why the lease with a fence, or any, cannot be taken away.
func (l *located) revocable(fence int64) error {
	switch {
	case fence != 0 && fence != l.fence:
		return &LostError{LostTaken}
	case l.state == StateLeased:
		return nil
	case fence == 0:
		return ErrNotLeased
	case l.since == givenBack:
		return &LostError{LostReturned}
	}
	return &LostError{LostExpired}
}
