package fdbpq

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// What a timer row is for. The kind stands behind the due time, so everything
// that falls due is found in one place and in order.
const (
	timerLease   = "l" // a lease runs out
	timerDelay   = "d" // a delayed item becomes ready
	timerExpiry  = "t" // an item outlives its TTL
	timerDedup   = "u" // a message id is forgotten
	timerReplay  = "p" // a pop id is forgotten
	timerRequest = "o" // a staged take is forgotten
)

// appendTimerKey appends the key of an item's timer.
func appendTimerKey(b []byte, due int64, kind, queue string, generation int64, p place) []byte {
	b = tuple.AppendString(b, spaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	b = tuple.AppendInt(b, generation)
	return p.append(b)
}

// idTimerKey returns the key of the timer that forgets a message id, a pop id or a request.
func idTimerKey(due int64, kind, queue, id string) []byte {
	b := tuple.AppendString(nil, spaceTimer)
	b = tuple.AppendInt(b, due)
	b = tuple.AppendString(b, kind)
	b = tuple.AppendString(b, queue)
	return tuple.AppendString(b, id)
}

// timer is a parsed timer row.
type timer struct {
	due        int64
	kind       string
	queue      string
	generation int64  // of item timers
	place      place  // of item timers
	id         string // of the timers of ids and requests
}

func parseTimer(key []byte) (timer, error) {
	var t timer
	rest := key[len(row(spaceTimer)):]
	var err error
	if t.due, rest, err = tuple.ConsumeInt(rest); err != nil {
		return t, fmt.Errorf("damaged timer: %w", err)
	}
	for _, field := range [...]*string{&t.kind, &t.queue} {
		if *field, rest, err = tuple.ConsumeString(rest); err != nil {
			return t, fmt.Errorf("damaged timer: %w", err)
		}
	}
	switch t.kind {
	case timerDedup, timerReplay, timerRequest:
		if t.id, _, err = tuple.ConsumeString(rest); err != nil {
			return t, fmt.Errorf("damaged timer: %w", err)
		}
		return t, nil
	}
	if t.generation, rest, err = tuple.ConsumeInt(rest); err != nil {
		return t, fmt.Errorf("damaged timer: %w", err)
	}
	if t.place, err = parsePlace(rest); err != nil {
		return t, fmt.Errorf("damaged timer: %w", err)
	}
	return t, nil
}

func (c *change) setTimer(due int64, kind string, p place) {
	c.store.due.expect(due)
	c.tx.Set(c.timerKey(due, kind, p), nil)
}

func (c *change) clearTimer(due int64, kind string, p place) {
	c.tx.Clear(c.timerKey(due, kind, p))
}

// setExpiry starts the timer of an item that has a TTL and is not leased.
func (c *change) setExpiry(p place, e *envelope) {
	if e.expires != 0 {
		c.tally.expiring++
		c.setTimer(e.expires, timerExpiry, p)
	}
}

func (c *change) clearExpiry(p place, e *envelope) {
	if e.expires != 0 {
		c.tally.expiring--
		c.clearTimer(e.expires, timerExpiry, p)
	}
}
