package fdbpq

import (
	"math"
	"sync/atomic"
	"time"
)

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
