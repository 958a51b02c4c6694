package fdbpq

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// clock estimates store time: nanoseconds that never decrease, kept in one row
// that every process moves forward by its own monotonic clock. A wrong wall clock
// neither ends leases early nor extends them.
type clock struct {
	wall       func() time.Time
	elapsed    func() time.Duration
	wait       func(context.Context, time.Duration) error
	base       atomic.Int64 // store time minus elapsed
	wallOffset atomic.Int64 // wall clock minus store time, as it was last displayed
}

func (c *clock) init(o Options) {
	c.wall, c.elapsed, c.wait = o.Wall, o.Elapsed, o.Wait
	if c.wall == nil {
		c.wall = time.Now
	}
	if c.elapsed == nil {
		start := time.Now()
		c.elapsed = func() time.Duration { return time.Since(start) }
	}
	if c.wait == nil {
		c.wait = wait
	}
}

// wait returns after d, or when ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Time is this process's estimate of store time, for what needs no transaction.
// Processes that commit agree on it to about a second.
func (s *Store) Time() time.Duration { return time.Duration(s.clock.now()) }

// now is this process's estimate.
func (c *clock) now() int64 { return int64(c.elapsed()) + c.base.Load() }

// advance makes the estimate at least seen, and returns it.
func (c *clock) advance(seen int64) int64 {
	for {
		now, ahead := int64(c.elapsed()), c.base.Load()
		if now+ahead >= seen {
			return now + ahead
		}
		if c.base.CompareAndSwap(ahead, seen-now) {
			return seen
		}
	}
}

// now is store time for a transaction: never earlier than what another process
// has written. Transactions pass their snapshot reader, since a dependency on the
// row would conflict with every heartbeat.
func (s *Store) now(r kv.Reader) (int64, error) {
	seen, err := r.Get(row(spaceTime))
	if err != nil {
		return 0, err
	}
	return s.clock.advance(int64(kv.DecodeInteger(seen))), nil
}

// sameOffset is the difference between two readings of both clocks that counts
// as none. The clocks cannot be read at one instant, but the same store time should
// be displayed the same each time.
const sameOffset = time.Millisecond

// Display turns a store time, such as [StoredItem.Due], into the time of day by
// this process's wall clock.
func (s *Store) Display(due int64) time.Time {
	c := &s.clock
	offset, last := c.wall().UnixNano()-c.now(), c.wallOffset.Load()
	if time.Duration(offset-last).Abs() < sameOffset {
		offset = last
	} else {
		c.wallOffset.Store(offset)
	}
	return time.Unix(0, due+offset)
}
