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

	// Backoff is how long the item stays away if its work fails now and its holder names no
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
	r := tuple.Read(token)
	l := Lease{Queue: queue, generation: r.Int(), Fence: r.Int(), idPriority: r.Int()}
	var err error
	if l.place, err = parsePlace(r.Rest()); err != nil || r.Err() != nil {
		return Lease{}, errToken
	}
	return l, nil
}

// Lease pops items like Pop, but only for the time d: an item that is not settled
// within it returns to its place. That is an interruption of its work, so that
// max_interruptions ends the life of an item that crashes its workers.
func (q Queue) Lease(tx kv.Tx, sel Selection, d time.Duration) (Popped, error) {
	if d <= 0 || d > MaxLease {
		return Popped{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	return q.pop(tx, sel, d)
}

// leases is what a queue does about its leases.
type leases struct{ *queueTx }

// of is the lease of an item.
func (ls leases) of(l *located) *Lease {
	return &Lease{
		Queue:      ls.name,
		Fence:      l.fence,
		Expires:    ls.store.Display(l.due),
		KeyFence:   l.keyFence,
		Backoff:    retries{ls.queueTx}.backoff(l, l.tries),
		generation: ls.state.generation,
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
		extended = leases{qtx}.of(&longer)
		return nil
	})
	settled.Lease = extended
	return settled, err
}

// item finds the item of a lease, nearly always in its leased row, which it parses into l.
func (ls leases) item(lease Lease, l *located) (*located, error) {
	row, err := ls.tx.Get(ls.key(spaceLeased, lease.place))
	if err != nil {
		return nil, err
	}
	if row == nil {
		return ls.locate(ls.tx, lease.ID())
	}
	return l, l.parseRow(spaceLeased, row, lease.place)
}

// due returns an item to its queue when its lease has run out.
func (ls leases) due(t timer) error {
	row, err := ls.tx.Get(ls.key(spaceLeased, t.place))
	if err != nil || row == nil {
		return err
	}
	l, err := parseItemRow(spaceLeased, row, t.place)
	if err != nil || l.due != t.due {
		return err
	}
	ls.txSize += itemTxSize(ls.name, &l.envelope, false)
	return retries{ls.queueTx}.runOut(l)
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
			return nil, times{ls.queueTx}.expire(l)
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
