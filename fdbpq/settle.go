package fdbpq

import (
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Settled tells what a settlement led to.
type Settled struct {
	Lease  *Lease // of Extend: the lease with its new end
	Events []Event
}

// Ack ends the lease: the item is done. It also holds when the lease has run
// out but nobody took the item since. A lost lease answers *LostError, here and
// in the other settlements, and has no effect.
func (q Queue) Ack(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, late, func(c *change, l *located) error {
		c.remove(l)
		c.drop(l.place, &l.envelope)
		return nil
	})
}

// Terminate gives the item up: it goes to the dead-letter queue with the
// reason, of which the first kilobyte is kept. Like Ack it holds for a late holder while nobody took the item.
// With ErrNoDeadLetterQueue it has no effect.
func (q Queue) Terminate(tx kv.Tx, lease Lease, reason string) (Settled, error) {
	if reason == "" {
		reason = DeadTerminated
	}
	reason = strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
	return q.settle(tx, lease, late, func(c *change, l *located) error {
		if l.isDead() {
			c.remove(l)
			c.discardDead(c.relocate(l.place, &l.envelope, l.target), &l.envelope, reason)
			return nil
		}
		grave, err := c.grave()
		if err == nil && grave == nil {
			err = fmt.Errorf("%w: make the queue %q", ErrNoDeadLetterQueue, c.name+DeadLetterSuffix)
		}
		if err != nil {
			return err
		}
		c.remove(l)
		return c.bury(grave, c.relocate(l.place, &l.envelope, l.target), &l.envelope, reason)
	})
}

const maxReason = 1 << 10

// Nack gives the item back, to be taken again at once or after a delay.
func (q Queue) Nack(tx kv.Tx, lease Lease, delay time.Duration) (Settled, error) {
	if delay < 0 || delay > MaxDelay {
		return Settled{}, fmt.Errorf("delay of %s: allowed are 0s to %s", delay, MaxDelay)
	}
	return q.settle(tx, lease, inTime, func(c *change, l *located) error {
		return c.release(l.place, l.held(), delay)
	})
}

// MaxReturns is how many leases of an item may be returned without counting as
// deliveries.
const MaxReturns = 64

// Return says that an answer with this lease did not reach its holder. The item
// goes back, and the lease does not count as delivered, unless a repeated take
// has answered the same lease again: then another answer may have arrived. After
// MaxReturns leases that did not count every one does: holders can say that they
// received nothing.
func (q Queue) Return(tx kv.Tx, lease Lease) (Settled, error) {
	return q.settle(tx, lease, inTime, func(c *change, l *located) error {
		held := l.held()
		if held.answers > 0 {
			held.answers--
			c.set(spaceLeased, l.place, held.append(c.buffers.value[:0]))
			return nil
		}
		if held.fence-held.deliveries >= MaxReturns {
			return c.release(l.place, held, 0)
		}
		c.removeLeased(l.place, held)
		held.deliveries--
		return c.reinstate(l.place, held, 0)
	})
}

// Extend starts the lease afresh, to last for d from now.
func (q Queue) Extend(tx kv.Tx, lease Lease, d time.Duration) (Settled, error) {
	if d <= 0 || d > MaxLease {
		return Settled{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	var extended *Lease
	settled, err := q.settle(tx, lease, inTime, func(c *change, l *located) error {
		now, err := c.now()
		if err != nil {
			return err
		}
		held := l.held()
		c.removeLeased(l.place, held)
		held.due = now + int64(d)
		c.addLeased(l.place, held)
		extended = c.lease(l.place, &l.envelope, held.due)
		return nil
	})
	settled.Lease = extended
	return settled, err
}

// Expect says which leases the transaction is about to settle, so that a store
// over a network is asked for all of them at the same time.
func (q Queue) PrefetchLeases(tx kv.Tx, leases ...Lease) {
	keys := make([][]byte, 0, len(leases)+2)
	keys = append(keys, queueRow(spaceState, q.name), row(spaceTime))
	for i := range leases {
		keys = append(keys, leases[i].place.append(generationPrefix(spaceLeased, q.name, leases[i].generation)))
	}
	tx.Prefetch(keys...)
}

// When a settlement holds.
type punctuality bool

const (
	inTime punctuality = false // only before the lease runs out
	late   punctuality = true  // also after, while nobody took the item
)

func (q Queue) settle(tx kv.Tx, lease Lease, when punctuality, fn func(*change, *located) error) (Settled, error) {
	c, err := q.begin(tx)
	if err != nil {
		return Settled{}, err
	}
	if c == nil || lease.generation != c.state.generation {
		return Settled{}, &LostError{LostGone}
	}
	l, err := c.leasedItem(lease)
	if err != nil {
		return Settled{}, err
	}
	switch {
	case l == nil:
		return Settled{}, &LostError{LostGone}
	case l.fence != lease.Fence:
		return Settled{}, &LostError{LostTaken}
	}
	if when == inTime {
		now, err := c.now()
		if err != nil {
			return Settled{}, err
		}
		if l.state != StateLeased || l.due <= now {
			return Settled{}, &LostError{LostExpired}
		}
	}
	if err := fn(c, l); err != nil {
		return Settled{}, err
	}
	c.finish()
	return Settled{Events: c.events}, nil
}

// leasedItem finds the item of a lease: nearly always where it was leased.
func (c *change) leasedItem(lease Lease) (*located, error) {
	row, err := c.tx.Get(c.key(spaceLeased, lease.place))
	if err != nil {
		return nil, err
	}
	if row == nil {
		return c.locate(c.tx, c.state, lease.ID())
	}
	return parseStanding(spaceLeased, row, lease.place)
}
