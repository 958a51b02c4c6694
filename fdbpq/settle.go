package fdbpq

import (
	"strings"
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

// Terminate moves the item to the dead-letter queue with the first kilobyte of the
// reason. Like Ack it works after the lease has run out, until the item is popped.
// ErrNoDeadLetterQueue has no effect.
func (q Queue) Terminate(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	if reason == "" {
		reason = DeadTerminated
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	return q.settle(tx, lease, untilTakenAgain, func(qtx *queueTx, l *located) error {
		if err := (attemptLog{qtx}).terminated(l, reason); err != nil {
			return err
		}
		if l.isDead() {
			deadLetters{qtx}.drop(l, reason)
			return nil
		}
		dlq, err := deadLetters{qtx}.open()
		if err == nil && dlq == nil {
			err = errNoDeadLetters(qtx.name)
		}
		if err != nil {
			return err
		}
		return deadLetters{qtx}.bury(dlq, l, reason)
	})
}

const maxReason = 1 << 10

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
		now, err := qtx.now()
		if err != nil {
			return err
		}
		due := retries{qtx}.end(l, ending{outcome: OutcomeNack, reason: nack.Reason, delay: nack.Delay, at: now})
		l.since = givenBack
		_, err = qtx.putBack(l, due)
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
	l, err := qtx.itemOfLease(lease)
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

// itemOfLease finds the item of a lease, nearly always in its leased row.
func (qtx *queueTx) itemOfLease(lease Lease) (*located, error) {
	row, err := qtx.tx.Get(qtx.key(spaceLeased, lease.place))
	if err != nil {
		return nil, err
	}
	if row == nil {
		return qtx.locate(qtx.tx, lease.ID())
	}
	return parseItemRow(spaceLeased, row, lease.place)
}
