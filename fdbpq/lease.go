package fdbpq

import (
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// Lease is the right to settle an item. It is a value: whoever holds its token
// can settle, in any process.
type Lease struct {
	Queue   string
	Fence   int64     // grows with every lease of the item
	Expires time.Time // by this process's wall clock; set by Pop and Extend

	generation int64
	place      place // where the leased item stands
	home       int64 // priority in the item's id
}

// ID is the id of the leased item.
func (l *Lease) ID() ID { return ID{place{priority: l.home, tail: l.place.tail}} }

// Token returns what ParseLease turns into the lease again. It does not
// contain the queue's name and proves nothing: authenticate it before it is
// handed to somebody else.
func (l *Lease) Token() []byte {
	b := make([]byte, 0, 48)
	b = tuple.AppendInt(b, l.generation)
	b = tuple.AppendInt(b, l.Fence)
	b = tuple.AppendInt(b, l.home)
	return l.place.append(b)
}

var errToken = errors.New("not a lease token: expected one as a pop answered it")

// ParseLease reads what [Lease.Token] wrote for an item of the queue.
func ParseLease(queue string, token []byte) (Lease, error) {
	l := Lease{Queue: queue}
	rest, err := token, error(nil)
	for _, field := range [...]*int64{&l.generation, &l.Fence, &l.home} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return Lease{}, errToken
		}
	}
	if l.place, err = parsePlace(rest); err != nil {
		return Lease{}, errToken
	}
	return l, nil
}

// LostError says that a lease gives no right any more; nothing was done.
type LostError struct {
	Reason Lost
}

func (e *LostError) Error() string { return "lease lost: " + string(e.Reason) }

// Lost says how a lease was lost.
type Lost string

const (
	LostGone    Lost = "gone"    // the item was settled, taken for good, removed or purged
	LostTaken   Lost = "taken"   // somebody else leased it since
	LostExpired Lost = "expired" // it ran out; acknowledging would still hold
)

// Lease takes items like Pop, but only for a time: an item that is not
// settled within it comes back to the place it had. Deliveries are counted
// here, so that an item that kills its workers does not come back for ever.
func (q Queue) Lease(tx kv.Tx, sel Selection, d time.Duration) (Popped, error) {
	if d <= 0 || d > MaxLease {
		return Popped{}, fmt.Errorf("lease of %s: allowed are more than 0s, up to %s", d, MaxLease)
	}
	return q.take(tx, sel, d)
}

func (c *change) lease(p place, e *envelope, due int64) *Lease {
	return &Lease{
		Queue:      c.name,
		Fence:      e.fence,
		Expires:    c.store.display(due),
		generation: c.state.generation,
		place:      p,
		home:       e.home,
	}
}

// leased is an item that somebody holds.
type leased struct {
	due    int64 // when the lease runs out
	target int64 // priority to come back to: a move takes effect then
	envelope
}

func (l *leased) append(b []byte) []byte {
	return l.envelope.append(tuple.AppendInt(tuple.AppendInt(b, l.due), l.target))
}

func parseLeased(b []byte, p place) (l leased, err error) {
	rest := b
	for _, field := range [...]*int64{&l.due, &l.target} {
		if *field, rest, err = tuple.ConsumeInt(rest); err != nil {
			return leased{}, fmt.Errorf("damaged lease: %w", err)
		}
	}
	l.envelope, err = parseEnvelope(rest, p)
	return l, err
}

func (c *change) addLeased(p place, l *leased) {
	c.set(spaceLeased, p, l.append(c.buffers.value[:0]))
	c.setTimer(l.due, timerLease, p)
	c.tally.leased++
}

func (c *change) removeLeased(p place, l *leased) {
	c.tx.Clear(c.key(spaceLeased, p))
	c.clearTimer(l.due, timerLease, p)
	c.tally.leased--
}

// release puts an item whose lease ended back to where it was, or where it was
// moved to meanwhile.
func (c *change) release(p place, l *leased, delay time.Duration) error {
	c.removeLeased(p, l)
	e := &l.envelope
	if limit := c.state.config.MaxDeliveries; limit > 0 && e.deliveries >= limit && !e.isDead() {
		if grave, err := c.grave(); err != nil || grave != nil {
			if err == nil {
				err = c.bury(grave, c.relocate(p, e, l.target), e, DeadMaxDeliveries)
			}
			return err
		}
	}
	return c.reinstate(p, l, delay)
}

// reinstate makes an item that was leased takeable again, at once or later.
func (c *change) reinstate(p place, l *leased, delay time.Duration) error {
	e := &l.envelope
	e.answers = 0
	to := c.relocate(p, e, l.target)
	if delay <= 0 && e.expires == 0 {
		c.addReady(to, e)
		return nil
	}
	now, err := c.now()
	if err != nil {
		return err
	}
	switch {
	case e.expires != 0 && e.expires <= now:
		return c.expire(to, e)
	case delay > 0:
		c.addDelayed(to, now+int64(delay), e)
	default:
		c.addReady(to, e)
	}
	return nil
}

// relocate returns the item's place at another priority and keeps the row that
// leads there from the place in its id.
func (c *change) relocate(p place, e *envelope, priority int64) place {
	if priority == p.priority {
		return p
	}
	forward := c.key(spaceForward, place{priority: e.home, tail: p.tail})
	if priority == e.home {
		c.tx.Clear(forward)
	} else {
		c.tx.Set(forward, tuple.AppendInt(nil, priority))
	}
	return place{priority: priority, tail: p.tail}
}
