package fdbpq

import (
	"math"
	"sync/atomic"
	"time"
)

// alarm knows when the next timer falls due, as far as this process has heard:
// its sweeper sleeps until then and is told when somebody sets an earlier one.
// It may ring for nothing, for the transaction that sets a timer may not commit.
type alarm struct {
	next atomic.Int64 // store time of the earliest timer; 0: nobody wants to know
	ring chan struct{}
}

func (a *alarm) init() { a.ring = make(chan struct{}, 1) }

// sleep forgets what was expected: the sweeper is about to look for itself.
func (a *alarm) sleep() { a.next.Store(math.MaxInt64) }

// expect says that a timer is being set.
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

// in returns how long after now the earliest timer falls due.
func (a *alarm) in(now int64) time.Duration {
	return max(0, time.Duration(a.next.Load()-now))
}
