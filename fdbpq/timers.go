package fdbpq

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The kinds of timers. In a key the kind follows the due time, so one range has all
// timers in the order in which they fall due.
const (
	timerLease   = "l" // a lease runs out
	timerDelay   = "d" // a delayed item becomes ready
	timerExpiry  = "t" // an item outlives its TTL
	timerMsgID   = "u" // a message id is forgotten
	timerPopID   = "p" // a pop id is forgotten
	timerRequest = "o" // the request of a staged pop is cleared
	timerKeys    = "k" // keys are to be looked at after another limit was set
	timerFair    = "f" // keys are to be given a row in the fair order
	timerTokens  = "b" // full buckets of keys are cleared
	timerFences  = "e" // fences of keys that time has passed are cleared
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

// idTimerKey returns the key of a timer that is not of an item.
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
	id         string // of the other timers
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
	case timerMsgID, timerPopID, timerRequest, timerKeys, timerFair, timerTokens, timerFences:
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

// timers is what a queue does about its timers.
type timers struct{ *queueTx }

func (ts timers) start(due int64, kind string, p place) {
	ts.store.alarm.expect(due)
	ts.tx.Set(ts.timerKey(due, kind, p), nil)
}

func (ts timers) stop(due int64, kind string, p place) {
	ts.tx.Clear(ts.timerKey(due, kind, p))
}

// alarm wakes this process's sweeper when the earliest known timer falls due. It
// rings early when a transaction sets an earlier timer. It may ring in vain, since
// that transaction may not commit.
type alarm struct {
	next atomic.Int64 // store time of the earliest timer; 0: no sweeper runs
	ring chan struct{}
}

func (a *alarm) init() { a.ring = make(chan struct{}, 1) }

// reset forgets the earliest timer; the sweeper is about to read the timers.
func (a *alarm) reset() { a.next.Store(math.MaxInt64) }

// expect records a timer that a transaction sets.
func (a *alarm) expect(due int64) {
	for {
		next := a.next.Load()
		if due >= next {
			return
		}
		if a.next.CompareAndSwap(next, due) {
			break
		}
	}
	select {
	case a.ring <- struct{}{}:
	default:
	}
}

// until returns the time from now to the earliest timer, which may be over.
func (a *alarm) until(now int64) time.Duration {
	return time.Duration(a.next.Load() - now)
}
