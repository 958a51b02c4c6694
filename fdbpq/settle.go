package fdbpq

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Settled is the result of a settlement.
type Settled struct {
	Lease  *Lease // of Extend: the extended lease
	Holder string // of the lease, if the item was leased
	Result Kept   // of AckWith
	Events []Event
}

// Ack deletes the item. It also works when the lease has run out and the item was not
// popped since; tokens of a rate that came back are then taken again. All settlements return
// *LostError for a lost lease, without effect; LostGone is also what an earlier attempt of the same settlement leaves. All others
// return ErrNoRoom, without effect, where only the last of the room is left (see Options.Low), unless the item leaves its queue.
func (q Queue) Ack(tx kv.Tx, lease Lease) (Settled, error) { return q.AckWith(tx, lease, nil) }

// AckWith is Ack with the result of the item's work, which the queue keeps if the push of the item has asked for it, and Settled says
// whether it does. A result of more bytes than MaxContent is an ErrContent, without effect.
func (q Queue) AckWith(tx kv.Tx, lease Lease, result []byte) (Settled, error) {
	if err := checkContent(nil, result); err != nil {
		return Settled{}, err
	}
	done := finish{how: FinishDone, body: result}
	var kept Kept
	settled, err := q.settle(tx, lease, FinishDone, untilTakenAgain, func(qtx *queueTx, l *layout.Item) (err error) {
		kept, err = qtx.finished(l, done)
		return err
	})
	settled.Result = kept
	return settled, err
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
	return q.settle(tx, lease, "", whileItLasts, func(qtx *queueTx, l *layout.Item) error {
		if err := qtx.store.room.goesBack(); err != nil {
			return err
		}
		_, err := qtx.retries.endLease(l, ending{outcome: OutcomeNack, reason: nack.Reason, delay: nack.Delay})
		return err
	})
}

// GiveBack returns the item to the queue, where it is ready at once: nothing is wrong with it, but its
// holder does not go on. A reason is for the record of the attempt. Without a reason no consumer has begun with
// the item: no attempt is recorded, and the tokens of a rate come back.
func (q Queue) GiveBack(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	return q.settle(tx, lease, "", whileItLasts, func(qtx *queueTx, l *layout.Item) error {
		if err := qtx.store.room.goesBack(); err != nil {
			return err
		}
		_, err := qtx.retries.endLease(l, ending{outcome: OutcomeBack, reason: reason, unused: reason == ""})
		return err
	})
}

// PrefetchLeases says which leases the transaction is about to settle, so that an
// engine over a network reads their rows at the same time.
func (q Queue) PrefetchLeases(tx kv.Tx, leases ...Lease) {
	tx.Prefetch(layout.QueueRow(layout.SpaceState, q.name), layout.Row(layout.SpaceTime))
	tx.Prefetch(leasedRows(q.name, leases)...)
}

func leasedRows(queue string, leases []Lease) [][]byte {
	rows := make([][]byte, len(leases))
	for i := range leases {
		rows[i] = leases[i].place.Append(layout.GenerationPrefix(layout.SpaceLeased, queue, leases[i].generation))
	}
	return rows
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
		l, err := layout.ParseItem(layout.SpaceLeased, row, leases[i].place)
		if err != nil {
			return err
		}
		if l.Key != "" {
			qtx.keyIndex.prefetch(l.Key)
		}
	}
	return nil
}

// validity says until when a lease can be settled in some way.
type validity bool

const (
	whileItLasts    validity = false // until the lease runs out
	untilTakenAgain validity = true  // until the item is popped again
)

// settle settles a lease. how is how the item ends by that, "" if it stays.
func (q Queue) settle(tx kv.Tx, lease Lease, how Finish, when validity, fn func(*queueTx, *layout.Item) error) (Settled, error) {
	qtx, err := q.begin(tx)
	if err != nil {
		return Settled{}, err
	}
	if qtx == nil || lease.generation != qtx.state.generation {
		return Settled{}, &LostError{LostGone}
	}
	if qtx.settled == nil {
		qtx.settled = new(layout.Item)
	}
	l, err := qtx.leases.item(lease, qtx.settled)
	if err != nil {
		return Settled{}, err
	}
	switch {
	case l == nil:
		return Settled{}, qtx.results.lost(lease, how)
	case l.Fence != lease.Fence:
		return Settled{}, &LostError{LostTaken}
	}
	if when == whileItLasts {
		now, err := qtx.now()
		if err != nil {
			return Settled{}, err
		}
		switch {
		case l.State != layout.StateLeased && l.Since == layout.GivenBack:
			return Settled{}, &LostError{LostReturned}
		case l.State != layout.StateLeased || l.Due <= now:
			return Settled{}, &LostError{LostExpired}
		}
	}
	holder, key, back := l.Holder, l.Key, l.TokensBack
	if err := fn(qtx, l); err != nil {
		return Settled{}, err
	}
	if err := qtx.rates.takeAgain(key, back); err != nil {
		return Settled{}, err
	}
	return Settled{Holder: holder, Events: qtx.happened()}, qtx.done()
}

// Return reports that one answer with this lease did not reach its consumer. The item
// goes back to the queue, and was not delivered. If repeated pops have answered the same
// lease, another answer may have arrived, so only the last report has an effect.
func (q Queue) Return(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, "", whileItLasts, func(qtx *queueTx, l *layout.Item) error {
		if err := qtx.store.room.goesBack(); err != nil {
			return err
		}
		if l.ExtraAnswers > 0 {
			fewer := *l
			fewer.ExtraAnswers--
			qtx.change(l, &fewer)
			return nil
		}
		_, err := qtx.retries.endLease(l, ending{outcome: outcomeUnreceived, unused: true})
		return err
	})
}

// Terminate moves the item to the dead-letter queue with the first kilobyte of the
// reason, or without it while the store has no room. Like Ack it works after the lease has run out, until the item is popped.
// ErrNoDeadLetterQueue has no effect.
func (q Queue) Terminate(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	said := cutReason(reason)
	if q.store.room.full() != nil {
		said = ""
	}
	reason = cmp.Or(said, DeadTerminated)
	return q.settle(tx, lease, FinishDead, untilTakenAgain, func(qtx *queueTx, l *layout.Item) error {
		if err := qtx.store.room.goesBack(); err != nil && !l.IsDead() {
			return err
		}
		if l.State == layout.StateLeased {
			now, err := qtx.now()
			if err != nil {
				return err
			}
			err = qtx.attemptLog.record(l, &ending{outcome: OutcomeTerminated, reason: said, at: min(now, l.Due)})
			if err != nil {
				return err
			}
		}
		if l.IsDead() {
			qtx.emit(Event{Type: EventDead, ID: idOf(l), Priority: l.ReturnPriority, Deliveries: l.Deliveries(), Endings: endingsOf(l), Reason: reason, Cause: reason})
			return qtx.end(l, finish{how: FinishDead, reason: reason})
		}
		taken, err := qtx.deadLetters.take(l, reason)
		if err == nil && !taken {
			err = errNoDeadLetters(qtx.name)
		}
		return err
	})
}

// Extend makes the lease last for d from now.
func (q Queue) Extend(tx kv.Tx, lease Lease, d time.Duration) (Settled, error) {
	if d <= 0 || d > MaxLease {
		return Settled{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	var extended *Lease
	settled, err := q.settle(tx, lease, "", whileItLasts, func(qtx *queueTx, l *layout.Item) error {
		if err := qtx.store.room.goesBack(); err != nil {
			return err
		}
		now, err := qtx.now()
		if err != nil {
			return err
		}
		longer := *l
		longer.Due = now + int64(d)
		qtx.change(l, &longer)
		extended = qtx.leases.of(&longer)
		return nil
	})
	settled.Lease = extended
	return settled, err
}
