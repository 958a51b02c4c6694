package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// Lease is the right to settle an item. Any process that has its token can settle.
type Lease struct {
	Queue   string
	Fence   int64     // grows with every lease of the item
	Expires time.Time // by this process's wall clock; set by Pop and Extend

	generation int64
	place      place // of the leased item
	idPriority int64 // priority in the item's id
}

// ID is the id of the leased item.
func (l *Lease) ID() ID { return ID{place{priority: l.idPriority, tail: l.place.tail}} }

// Token encodes the lease for ParseLease, without the queue's name. It is not
// authenticated: a forged token can settle.
func (l *Lease) Token() []byte {
	b := make([]byte, 0, 48)
	b = tuple.AppendInt(b, l.generation)
	b = tuple.AppendInt(b, l.Fence)
	b = tuple.AppendInt(b, l.idPriority)
	return l.place.append(b)
}

var errToken = errors.New("not a lease token: expected one as a pop answered it")

// ParseLease reads what [Lease.Token] wrote for an item of the queue.
func ParseLease(queue string, token []byte) (Lease, error) {
	l := Lease{Queue: queue}
	rest, err := token, error(nil)
	for _, field := range [...]*int64{&l.generation, &l.Fence, &l.idPriority} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return Lease{}, errToken
		}
	}
	if l.place, err = parsePlace(rest); err != nil {
		return Lease{}, errToken
	}
	return l, nil
}

// Lease pops items like Pop, but only for the time d: an item that is not settled
// within it returns to its place. Each lease counts as a delivery, so that
// max_deliveries ends the life of an item that crashes its workers.
func (q Queue) Lease(tx kv.Tx, sel Selection, d time.Duration) (Popped, error) {
	if d <= 0 || d > MaxLease {
		return Popped{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	return q.pop(tx, sel, d)
}

func (qtx *queueTx) lease(p place, e *envelope, due int64) *Lease {
	return &Lease{
		Queue:      qtx.name,
		Fence:      e.fence,
		Expires:    qtx.store.Display(due),
		generation: qtx.state.generation,
		place:      p,
		idPriority: e.idPriority,
	}
}

// leasedItem is the value of a leased item's row.
type leasedItem struct {
	due            int64 // when the lease runs out
	returnPriority int64 // priority to return to: where Move moved the item
	envelope
}

func (l *leasedItem) append(b []byte) []byte {
	return l.envelope.append(tuple.AppendInt(tuple.AppendInt(b, l.due), l.returnPriority))
}

func parseLeased(b []byte, p place) (l leasedItem, err error) {
	rest := b
	for _, field := range [...]*int64{&l.due, &l.returnPriority} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return leasedItem{}, fmt.Errorf("damaged lease: %w", err)
		}
	}
	l.envelope, err = parseEnvelope(rest, p)
	return l, err
}

func (qtx *queueTx) addLeased(p place, l *leasedItem) {
	qtx.set(spaceLeased, p, l.append(qtx.buffers.value[:0]))
	qtx.setTimer(l.due, timerLease, p)
	qtx.tally.leased++
}

func (qtx *queueTx) removeLeased(p place, l *leasedItem) {
	qtx.tx.Clear(qtx.key(spaceLeased, p))
	qtx.clearTimer(l.due, timerLease, p)
	qtx.tally.leased--
}

// putBack returns an item to its queue when its lease ends, or moves it to the
// dead-letter queue when it has had all of its deliveries.
func (qtx *queueTx) putBack(p place, l *leasedItem, delay time.Duration) error {
	qtx.removeLeased(p, l)
	e := &l.envelope
	if limit := qtx.state.config.MaxDeliveries; limit > 0 && e.deliveries >= limit && !e.isDead() {
		if dlq, err := qtx.deadLetterQueue(); err != nil || dlq != nil {
			if err == nil {
				err = qtx.moveToDeadLetters(dlq, qtx.relocate(p, e, l.returnPriority), e, DeadMaxDeliveries)
			}
			return err
		}
	}
	return qtx.reinstate(p, l, delay)
}

// reinstate makes an item ready again, or delays it, whatever its deliveries.
func (qtx *queueTx) reinstate(p place, l *leasedItem, delay time.Duration) error {
	e := &l.envelope
	e.extraAnswers = 0
	to := qtx.relocate(p, e, l.returnPriority)
	if delay <= 0 && e.expires == 0 {
		qtx.addReady(to, e)
		return nil
	}
	now, err := qtx.now()
	if err != nil {
		return err
	}
	switch {
	case e.expires != 0 && e.expires <= now:
		return qtx.expire(to, e)
	case delay > 0:
		qtx.addDelayed(to, now+int64(delay), e)
	default:
		qtx.addReady(to, e)
	}
	return nil
}

// leaseDue returns an item to its queue when its lease has run out.
func (qtx *queueTx) leaseDue(t timer) error {
	row, err := qtx.tx.Get(qtx.key(spaceLeased, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseLeased(row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	qtx.txSize += qtx.itemTxSize(&l.envelope, false)
	qtx.emit(Event{Type: EventLeaseLost, ID: l.id(t.place), Priority: t.place.priority, Deliveries: l.deliveries})
	return qtx.putBack(t.place, &l, 0)
}

// Extend makes the lease last for d from now.
func (q Queue) Extend(tx kv.Tx, lease Lease, d time.Duration) (Settled, error) {
	if d <= 0 || d > MaxLease {
		return Settled{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	var extended *Lease
	settled, err := q.settle(tx, lease, whileItLasts, func(qtx *queueTx, l *located) error {
		now, err := qtx.now()
		if err != nil {
			return err
		}
		leased := l.asLeased()
		qtx.removeLeased(l.place, leased)
		leased.due = now + int64(d)
		qtx.addLeased(l.place, leased)
		extended = qtx.lease(l.place, &l.envelope, leased.due)
		return nil
	})
	settled.Lease = extended
	return settled, err
}
