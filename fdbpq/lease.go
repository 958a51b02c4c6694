package fdbpq

import (
	"errors"
	"fmt"
	"time"

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

	// Backoff is how long the item stays away if its holder gives it back now and names no
	// delay, 0 if the queue has no backoff. In a Lease of ParseLease it is 0.
	Backoff time.Duration

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

func (qtx *queueTx) lease(l *located) *Lease {
	return &Lease{
		Queue:      qtx.name,
		Fence:      l.fence,
		Expires:    qtx.store.Display(l.due),
		KeyFence:   l.keyFence,
		Backoff:    retries{qtx}.backoff(l),
		generation: qtx.state.generation,
		place:      l.place,
		idPriority: l.idPriority,
	}
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
		longer := *l
		longer.due = now + int64(d)
		qtx.change(l, &longer)
		extended = qtx.lease(&longer)
		return nil
	})
	settled.Lease = extended
	return settled, err
}
