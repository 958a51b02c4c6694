package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Settled is the result of a settlement.
type Settled struct {
	Lease  *Lease // of Extend: the extended lease
	Holder string // of the lease, if the item was leased
	Events []Event
}

// LostError: the lease is no longer valid, and the settlement had no effect.
type LostError struct {
	Reason Lost
}

func (e *LostError) Error() string { return "lease lost: " + string(e.Reason) }

// Lost is the reason why a lease is lost.
type Lost string

const (
	LostGone  Lost = "gone"  // the item was acknowledged or terminated, popped for good, removed or purged
	LostTaken Lost = "taken" // the item has a later lease

	// After these Ack and Terminate still work until the item is popped.
	LostReturned Lost = "returned" // the item was given back
	LostExpired  Lost = "expired"  // it ran out
)

// Ack deletes the item. It also works when the lease has run out and the item was not
// popped since. All settlements return *LostError for a lost lease, without effect.
func (q Queue) Ack(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, untilTakenAgain, func(qtx *queueTx, l *located) error {
		qtx.change(l, nil)
		return nil
	})
}

// Nack says how the holder of a lease gives the item back.
type Nack struct {
	Delay  *time.Duration // until the item is ready again; nil: what the queue's backoff says
	Reason string         // for the record of the attempt
}

// Nack returns the item to the queue.
func (q Queue) Nack(tx kv.Tx, lease Lease, nack Nack) (Settled, error) {
	if err := checkRetry(nack.Delay); err != nil {
		return Settled{}, err
	}
	return q.settle(tx, lease, whileItLasts, func(qtx *queueTx, l *located) error {
		_, err := retries{qtx}.endLease(l, ending{outcome: OutcomeNack, reason: nack.Reason, delay: nack.Delay})
		return err
	})
}

// GiveBack returns the item to the queue, where it is ready at once: nothing is wrong with it, but its
// holder does not go on. A reason is for the record of the attempt. Without one nobody has begun with
// the item: no attempt is recorded, and the tokens of a rate come back.
func (q Queue) GiveBack(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	return q.settle(tx, lease, whileItLasts, func(qtx *queueTx, l *located) error {
		_, err := retries{qtx}.endLease(l, ending{outcome: OutcomeBack, reason: reason, unused: reason == ""})
		return err
	})
}

// PrefetchLeases says which leases the transaction is about to settle, so that an
// engine over a network reads their rows at the same time.
func (q Queue) PrefetchLeases(tx kv.Tx, leases ...Lease) {
	tx.Prefetch(queueRow(spaceState, q.name), row(spaceTime))
	tx.Prefetch(leasedRows(q.name, leases)...)
}

// PrefetchKeys says which leases the transaction is about to settle, after PrefetchLeases,
// so that an engine over a network reads what the items' keys have next at the same time.
// It waits for the rows of the items, which name the keys.
func (q Queue) PrefetchKeys(tx kv.Tx, leases ...Lease) error {
	qtx, err := q.begin(tx)
	if err != nil || qtx == nil || !qtx.state.keyLimited() {
		return err
	}
	rows, err := qtx.snapshot.GetAll(leasedRows(q.name, leases))
	if err != nil {
		return err
	}
	for i, row := range rows {
		if row == nil || leases[i].generation != qtx.state.generation {
			continue
		}
		l, err := parseItemRow(spaceLeased, row, leases[i].place)
		if err != nil {
			return err
		}
		if l.key != "" {
			keyIndex{qtx}.prefetch(l.key)
		}
	}
	return nil
}

func leasedRows(queue string, leases []Lease) [][]byte {
	rows := make([][]byte, len(leases))
	for i := range leases {
		rows[i] = leases[i].place.append(generationPrefix(spaceLeased, queue, leases[i].generation))
	}
	return rows
}

// validity says until when a lease can be settled in some way.
type validity bool

const (
	whileItLasts    validity = false // until the lease runs out
	untilTakenAgain validity = true  // until the item is popped again
)

func (q Queue) settle(tx kv.Tx, lease Lease, when validity, fn func(*queueTx, *located) error) (Settled, error) {
	qtx, err := q.begin(tx)
	if err != nil {
		return Settled{}, err
	}
	if qtx == nil || lease.generation != qtx.state.generation {
		return Settled{}, &LostError{LostGone}
	}
	if qtx.settled == nil {
		qtx.settled = new(located)
	}
	l, err := leases{qtx}.item(lease, qtx.settled)
	if err != nil {
		return Settled{}, err
	}
	switch {
	case l == nil:
		return Settled{}, &LostError{LostGone}
	case l.fence != lease.Fence:
		return Settled{}, &LostError{LostTaken}
	}
	if when == whileItLasts {
		now, err := qtx.now()
		if err != nil {
			return Settled{}, err
		}
		switch {
		case l.state != StateLeased && l.since == givenBack:
			return Settled{}, &LostError{LostReturned}
		case l.state != StateLeased || l.due <= now:
			return Settled{}, &LostError{LostExpired}
		}
	}
	holder := l.holder
	if err := fn(qtx, l); err != nil {
		return Settled{}, err
	}
	return Settled{Holder: holder, Events: qtx.happened()}, qtx.done()
}

// Return reports that one answer with this lease did not reach its consumer. The item
// goes back to the queue, and was not delivered. If repeated pops have answered the same
// lease, another answer may have arrived, so only the last report has an effect.
func (q Queue) Return(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, whileItLasts, func(qtx *queueTx, l *located) error {
		if l.extraAnswers > 0 {
			fewer := *l
			fewer.extraAnswers--
			qtx.change(l, &fewer)
			return nil
		}
		_, err := retries{qtx}.endLease(l, ending{outcome: outcomeUnreceived, unused: true})
		return err
	})
}

// ErrNotLeased: the item has no lease that could be taken away.
var ErrNotLeased = errors.New("the item is not leased")

// Revocation says which lease of an item ends, and what becomes of the item.
type Revocation struct {
	Fence  int64          // of the lease; 0: whichever it is
	Delay  *time.Duration // until the item is ready again; nil: it is at once
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
	revoked := Revoked{Found: true, Priority: l.returnPriority, Deliveries: l.deliveries()}
	if revoked.Err = l.revocable(r.Fence); revoked.Err != nil {
		return revoked, nil
	}
	back, err := leases{qtx}.revoke(l, r)
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

// revoke ends the lease of an item, and returns the item as it is then, nil if it has left the
// queue.
func (ls leases) revoke(l *located, r Revocation) (*located, error) {
	l.fence++
	return retries{ls.queueTx}.takeBack(EventRevoked, l, ending{outcome: OutcomeRevoked, reason: r.Reason, delay: r.Delay})
}

// ErrNoFence: no lease of the item has had the fence.
var ErrNoFence = errors.New("no lease of the item has had this fence")

// revocable returns why the lease with a fence, or any, cannot be taken away.
func (l *located) revocable(fence int64) error {
	switch {
	case fence > l.fence:
		return fmt.Errorf("%w: it is %d, and the last one is %d", ErrNoFence, fence, l.fence)
	case fence != 0 && fence != l.fence:
		return &LostError{LostTaken}
	case l.state == StateLeased:
		return nil
	case fence == 0, l.since == takenAway:
		return ErrNotLeased
	case l.since == givenBack:
		return &LostError{LostReturned}
	}
	return &LostError{LostExpired}
}

// A push can acknowledge a leased item in its own transaction, so an item of one queue
// becomes an item of another one exactly once, wherever its consumer crashes.
// It conflicts with what else settles or pops the leased item, and with nothing in its own
// queue. All reasons to refuse it are checked before the first write: no part of a transaction
// can be undone while other pushes of its batch hold. The queue of the lease has to agree, or
// a right to push to one queue would become a right to acknowledge items of another one.

// ErrHandOver: the queue of the lease does not let pushes to this queue acknowledge its
// items.
var ErrHandOver = errors.New("hand-over refused")

// ErrTenants is an ErrHandOver that no configuration allows.
var ErrTenants = fmt.Errorf("%w: the leased item is another tenant's, and stays there", ErrHandOver)

// handOver is a leased item that a push is to acknowledge.
type handOver struct {
	from *queueTx
	item *located
}

// openHandOver finds the item of a lease, and changes nothing. It returns why the push is
// refused: *LostError, or ErrHandOver. Without a lease it returns nil.
func (p *pusher) openHandOver(lease *Lease) (h *handOver, refused, err error) {
	if lease == nil {
		return nil, nil, nil
	}
	from, err := p.queue(lease.Queue)
	if err != nil {
		return nil, nil, err
	}
	if !from.there() || from.state.generation != lease.generation {
		return nil, &LostError{LostGone}, nil
	}
	item, err := leases{from}.item(*lease, new(located))
	switch {
	case err != nil:
		return nil, nil, err
	case item == nil:
		return nil, &LostError{LostGone}, nil
	case item.fence != lease.Fence:
		return nil, &LostError{LostTaken}, nil
	case tenantOf(from.name) != tenantOf(p.name):
		return nil, ErrTenants, nil
	case !listed(from.state.config.HandOver, ownName(p.name)):
		return nil, fmt.Errorf("%w: the hand_over of queue %q has to name %q", ErrHandOver, ownName(from.name), ownName(p.name)), nil
	}
	return &handOver{from: from, item: item}, nil, nil
}

// acknowledge deletes the item, as Ack does. There may be none.
func (h *handOver) acknowledge() {
	if h != nil {
		h.from.change(h.item, nil)
	}
}

// hands reports whether an item of the queue that is pushed to is the one handed over.
func (h *handOver) hands(item *located, p *pusher) bool {
	return h != nil && h.from == p.queueTx && h.item.place == item.place
}
