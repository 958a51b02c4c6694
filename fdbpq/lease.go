package fdbpq

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Lease is the right to settle an item. Any process that has its token can settle.
type Lease struct {
	Queue   string
	Fence   int64     // grows with every lease of the item
	Expires time.Time // by this process's wall clock; set by Pop and Extend

	// KeyFence grows with every lease of any item of the key, if one at a time is leased.
	// Otherwise, and in a Lease of ParseLease, it is 0.
	KeyFence int64

	// Backoff is how long the item stays away if its work fails now and its holder names no
	// delay, 0 if the queue has no backoff. In a Lease of ParseLease it is 0.
	Backoff time.Duration

	// Spent is what the delivery has really cost, 0 to MaxCost, for a settlement to correct what it has reserved: more, or less. nil: it has
	// cost that. Where the lease goes on, the settlement reserves more, and never less. An item that came back unused has cost nothing.
	Spent *int64

	generation int64
	place      layout.Place // of the leased item
	idPriority int64        // priority in the item's id
}

// ID is the id of the leased item.
func (l *Lease) ID() ID { return ID{layout.Place{Priority: l.idPriority, Suffix: l.place.Suffix}} }

// Token encodes the lease for ParseLease, without the queue's name. It is not
// authenticated: a forged token can settle.
func (l *Lease) Token() []byte {
	b := make([]byte, 0, 48)
	b = tuple.AppendInt(b, l.generation)
	b = tuple.AppendInt(b, l.Fence)
	b = tuple.AppendInt(b, l.idPriority)
	return l.place.Append(b)
}

var errToken = errors.New("not a lease token: expected one as a pop answered it")

// ParseLease reads what [Lease.Token] wrote for an item of the queue.
func ParseLease(queue string, token []byte) (Lease, error) {
	r := tuple.Read(token)
	l := Lease{Queue: queue, generation: r.Int(), Fence: r.Int(), idPriority: r.Int()}
	var err error
	if l.place, err = layout.ParsePlace(r.Rest()); err != nil || r.Err() != nil {
		return Lease{}, errToken
	}
	return l, nil
}

// LostError: the lease is no longer valid, and the settlement had no effect.
type LostError struct {
	Reason Lost
	Why    string // of LostCancelled, if whoever cancelled the item has said why
}

func (e *LostError) Error() string {
	if e.Why != "" {
		return "lease lost: " + string(e.Reason) + ": " + e.Why
	}
	return "lease lost: " + string(e.Reason)
}

// Lost is the reason why a lease is lost.
type Lost string

const (
	// The item has left its queue. If the queue keeps what became of it, and this was an acknowledgement or its termination, the lease
	// may have ended it just so.
	LostGone Lost = "gone"

	// The item has a later lease, or has left its queue in another way than the lease would have it.
	LostTaken Lost = "taken"

	// The item was cancelled, and its queue keeps that.
	LostCancelled Lost = "cancelled"

	// After these Ack and Terminate still work until the item is popped, unless the item's time is over, too.
	LostReturned Lost = "returned" // the item was given back
	LostExpired  Lost = "expired"  // it ran out
)

// leases makes and finds the leases of a queue.
type leases struct{ *queueTx }

// of is the lease of an item.
func (ls leases) of(l *layout.Item) *Lease {
	return &Lease{
		Queue:      ls.name,
		Fence:      l.Fence,
		Expires:    ls.store.Display(l.Due),
		KeyFence:   l.KeyFence,
		Backoff:    ls.backoff(l, l.Tries),
		generation: ls.state.generation,
		place:      l.Place,
		idPriority: l.IDPriority,
	}
}

// item finds the item of a lease, nearly always in its leased row, which it parses into l. A dead item has no lease.
func (ls leases) item(lease Lease, l *layout.Item) (*layout.Item, error) {
	row, err := ls.tx.Get(ls.key(layout.SpaceLeased, lease.place))
	if err != nil {
		return nil, err
	}
	if row == nil {
		l, err = ls.locate(ls.tx, lease.ID())
	} else {
		err = l.Parse(layout.SpaceLeased, row, lease.place)
	}
	if err != nil || l == nil || l.Dying() {
		return nil, err
	}
	return l, nil
}

// backoff is how long an item stays away after the n-th end of its kind.
func (ls leases) backoff(l *layout.Item, n int64) time.Duration {
	if ls.state.backoff == nil {
		return 0
	}
	return ls.state.backoff.after(idOf(l), n)
}

// putBack returns an item to its queue when its lease has ended, or moves it to the dead-letter queue.
// It returns the item as it is then, nil for an item that has left the queue.
func (ls leases) putBack(l *layout.Item, f fate) (*layout.Item, error) {
	if f.dead != "" {
		if taken, err := ls.deadLetters.take(l, f.dead); taken || err != nil {
			return nil, err
		}
	}
	return ls.reinstate(l, f.due)
}

// reinstate makes an item ready again, or delays it until a time that is not past.
func (ls leases) reinstate(l *layout.Item, due int64) (*layout.Item, error) {
	if due > 0 || l.Expires != 0 {
		now, err := ls.now()
		if err != nil {
			return nil, err
		}
		if l.Expires != 0 && l.Expires <= now {
			return nil, ls.expiries.expire(l)
		}
		if due <= now {
			due = 0
		}
	}
	back := *l
	back.ExtraAnswers, back.Since, back.Holder = 0, min(l.Since, 0), ""
	ls.change(l, back.At(l.ReturnPriority).From(due))
	return &back, nil
}

// Settled is the result of a settlement.
type Settled struct {
	Lease  *Lease // of Extend: the extended lease
	Holder string // of the lease, if the item was leased
	Result Kept   // of AckWith
	Events []Event

	Dropped bool // of Report: there was no room for the text

	Reserved int64 // the cost that the delivery had reserved, 0 where no cost has a rate
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
	if reason == "" {
		lease.Spent = nil
	}
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

// CheckCost returns an error unless an item may have the cost, or a delivery from 0 on.
func CheckCost(cost, least int64) error {
	if cost < least || cost > MaxCost {
		return fmt.Errorf("%w: %d, allowed are %d to %d", ErrCost, cost, least, MaxCost)
	}
	return nil
}

// ErrCost: a cost is out of bounds.
var ErrCost = errors.New("cost out of bounds")

// settle settles a lease. how is how the item ends by that, "" if it stays.
func (q Queue) settle(tx kv.Tx, lease Lease, how Finish, when validity, fn func(*queueTx, *layout.Item) error) (Settled, error) {
	if lease.Spent != nil {
		if err := CheckCost(*lease.Spent, 0); err != nil {
			return Settled{}, err
		}
	}
	qtx, err := q.begin(tx)
	if err != nil {
		return Settled{}, err
	}
	switch {
	case qtx == nil:
		return Settled{}, &LostError{Reason: LostGone}
	case lease.generation != qtx.state.generation: // a purge keeps results
		return Settled{}, qtx.results.lost(lease, how)
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
		return Settled{}, &LostError{Reason: LostTaken}
	}
	if when == whileItLasts {
		now, err := qtx.now()
		if err != nil {
			return Settled{}, err
		}
		switch {
		case l.State != layout.StateLeased && l.Since == layout.GivenBack:
			return Settled{}, &LostError{Reason: LostReturned}
		case l.State != layout.StateLeased || l.Due <= now:
			return Settled{}, &LostError{Reason: LostExpired}
		}
	}
	holder, pays := l.Holder, qtx.rates.paysFor(l, lease.Spent)
	if err := fn(qtx, l); err != nil {
		return Settled{}, err
	}
	if err := qtx.rates.settle(&pays); err != nil {
		return Settled{}, err
	}
	return Settled{Holder: holder, Reserved: pays.reserved(), Events: qtx.happened()}, qtx.done()
}

// Return reports that one answer with this lease did not reach its consumer. The item
// goes back to the queue, and was not delivered. If repeated pops have answered the same
// lease, another answer may have arrived, so only the last report has an effect.
func (q Queue) Return(tx kv.Tx, lease Lease) (Settled, error) {
	lease.Spent = nil
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
	return q.extend(tx, lease, d, nil)
}

// Report is Extend, and the item remembers the text as its progress, in place of what was said before, until it ends: whoever leases it next
// gets the text, and so does who finds it as a dead letter. Where a text that is longer than the one before has no room, it is dropped, and
// the lease is extended all the same. ErrProgress, without effect: the text is not allowed.
func (q Queue) Report(tx kv.Tx, lease Lease, d time.Duration, text string) (Settled, error) {
	if err := CheckProgress(text); err != nil {
		return Settled{}, err
	}
	return q.extend(tx, lease, d, &text)
}

func (q Queue) extend(tx kv.Tx, lease Lease, d time.Duration, text *string) (Settled, error) {
	if d <= 0 || d > MaxLease {
		return Settled{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	least := lease.Spent
	if lease.Spent = nil; least != nil {
		if err := CheckCost(*least, 0); err != nil {
			return Settled{}, err
		}
	}
	var extended *Lease
	dropped := false
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
		if text != nil {
			if dropped, err = qtx.progress.replace(&longer, *text, now); err != nil {
				return err
			}
		}
		if least != nil && *least > l.Charged && qtx.state.ratesCost() {
			longer.Charged = *least
			if err := qtx.rates.correct(l.Key, l.Charged, *least); err != nil {
				return err
			}
		}
		qtx.change(l, &longer)
		extended = qtx.leases.of(&longer)
		return nil
	})
	settled.Lease, settled.Dropped = extended, dropped
	return settled, err
}

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
	e := ending{outcome: OutcomeRevoked, reason: reason, delay: delay, fence: l.Fence}
	l.Fence++
	return r.takeBack(EventRevoked, l, e)
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
		Fence: e.fence,
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
