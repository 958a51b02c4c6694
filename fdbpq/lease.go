package fdbpq

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
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
}

func (e *LostError) Error() string { return "lease lost: " + string(e.Reason) }

// Lost is the reason why a lease is lost.
type Lost string

const (
	// The item has left its queue. If the queue keeps what became of it, and this was an acknowledgement or its termination, the lease
	// may have ended it just so.
	LostGone Lost = "gone"

	// The item has a later lease, or has left its queue in another way than the lease would have it.
	LostTaken Lost = "taken"

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
