package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ErrNotLeased: the item has no lease that could be taken away.
var ErrNotLeased = errors.New("the item is not leased")

// Revocation says which lease of an item ends, and what becomes of the item.
type Revocation struct {
	Fence  int64          // of the lease; 0: of any lease
	Delay  *time.Duration // until the item is ready again; nil: at once
	Reason string         // for the record of the attempt
}

// Revoked is the result of a Revoke.
type Revoked struct {
	Found      bool  // the queue has the item
	Err        error // the lease was not taken away: ErrNotLeased, ErrNoFence, or *LostError for one that has ended
	Priority   int64
	Deliveries int64
	State      State // of the item; "": it has left the queue
	Dead       bool  // as a dead letter
	Events     []Event
}

// Revoke takes a lease away. The item's fence grows, so the holder's settlements return LostTaken
// from then on. The lease counts as a delivery, and neither as a failure nor as an interruption.
func (q Queue) Revoke(tx kv.Tx, id ID, r Revocation) (Revoked, error) {
	if err := checkRetry(r.Delay); err != nil {
		return Revoked{}, err
	}
	qtx, l, err := q.beginWithItem(tx, id)
	if err != nil || l == nil {
		return Revoked{}, err
	}
	revoked := Revoked{Found: true, Priority: l.ReturnPriority, Deliveries: l.Deliveries()}
	if revoked.Err = revocable(l, r.Fence); revoked.Err != nil {
		return revoked, nil
	}
	back, err := qtx.retries.revoke(l, r.Reason, r.Delay)
	if err != nil {
		return Revoked{}, err
	}
	if back != nil {
		revoked.State = State(back.State)
	}
	revoked.Events = qtx.happened()
	revoked.Dead = back == nil && revoked.Events[len(revoked.Events)-1].Type == EventDead
	return revoked, qtx.done()
}

// ErrNoFence: no lease of the item has had the fence.
var ErrNoFence = errors.New("no lease of the item has had this fence")

// revocable returns the reason why the lease with a fence, or any lease, cannot be taken away.
func revocable(l *layout.Item, fence int64) error {
	switch {
	case fence > l.Fence:
		return fmt.Errorf("%w: the fence is %d, and the last lease has %d", ErrNoFence, fence, l.Fence)
	case fence != 0 && fence != l.Fence:
		return &LostError{Reason: LostTaken}
	case l.State == layout.StateLeased:
		return nil
	case fence == 0, l.Since == layout.TakenAway:
		return ErrNotLeased
	case l.Since == layout.GivenBack:
		return &LostError{Reason: LostReturned}
	}
	return &LostError{Reason: LostExpired}
}
