package fdbpq

import (
	"math"
	"sync/atomic"
)

// alarm wakes whoever sleeps until the next timer when this process sets an
// earlier one. It may ring for nothing: the transaction that set the timer may
// not commit.
type alarm struct {
	next atomic.Int64 // store time that the sleeper knows of; 0: nobody sleeps
	ring chan struct{}
}

func (a *alarm) init() { a.ring = make(chan struct{}, 1) }

// sleep says that nobody will look at timers before the given store time, and
// returns what ends the sleep early.
func (a *alarm) sleep(next int64) <-chan struct{} {
	if next == 0 {
		next = math.MaxInt64
	}
	a.next.Store(next)
	return a.ring
}

// expect says that a timer is being set.
func (s *Store) expect(due int64) {
	if due >= s.due.next.Load() {
		return
	}
	select {
	case s.due.ring <- struct{}{}:
	default:
	}
}
