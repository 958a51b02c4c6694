package fdbpq

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// clock estimates store time: nanoseconds that only ever grow, kept in one row
// that every process moves forward by its own monotonic clock. A wall clock
// that is wrong neither steals nor holds anything.
type clock struct {
	wall    func() time.Time
	elapsed func() time.Duration
	wait    func(context.Context, time.Duration) error
	ahead   atomic.Int64 // store time minus elapsed
	offset  atomic.Int64 // wall clock minus store time, as it was last displayed
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

// wait lets time pass, until ctx ends.
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

// now is this process's estimate.
func (c *clock) now() int64 { return int64(c.elapsed()) + c.ahead.Load() }

// advance takes notice of a store time that was seen.
func (c *clock) advance(seen int64) int64 {
	for {
		now, ahead := int64(c.elapsed()), c.ahead.Load()
		if now+ahead >= seen {
			return now + ahead
		}
		if c.ahead.CompareAndSwap(ahead, seen-now) {
			return seen
		}
	}
}

// now is store time as a transaction should use it: never behind what another
// process has already written. Transactions pass their snapshot reader, for
// the row changes all the time.
func (s *Store) now(r kv.Reader) (int64, error) {
	seen, err := r.Get(row(spaceTime))
	if err != nil {
		return 0, err
	}
	return s.clock.advance(int64(kv.DecodeInteger(seen))), nil
}

// sameOffset is how far apart two looks at both clocks may be and still mean
// the same: they cannot be read at one instant, and what is displayed twice
// should read the same twice.
const sameOffset = time.Millisecond

// display turns a store time into the time of day it stands for.
func (s *Store) display(due int64) time.Time {
	c := &s.clock
	offset, last := c.wall().UnixNano()-c.now(), c.offset.Load()
	if time.Duration(offset-last).Abs() < sameOffset {
		offset = last
	} else {
		c.offset.Store(offset)
	}
	return time.Unix(0, due+offset)
}
