package fdbpq

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
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

// heartbeatEvery is the interval at which a process writes store time, and reads
// timers that other processes may have set.
const heartbeatEvery = time.Second

// heartbeat writes store time.
type heartbeat struct {
	store *Store
}

// beat writes this process's estimate of store time.
func (p heartbeat) beat(ctx context.Context) error {
	err := p.store.db.Update(ctx, func(tx kv.Tx) error {
		now, err := p.store.now(tx.Snapshot())
		if err != nil {
			return err
		}
		p.store.writeStoreTime(tx, now)
		tx.Set(p.store.processRow(), tuple.AppendInt(nil, now))
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat writes it again
	}
	return err
}

// writeStoreTime writes now as store time.
func (s *Store) writeStoreTime(tx kv.Tx, now int64) {
	tx.Max(row(spaceTime), uint64(now))
	tx.Set(row(spaceWall), kv.EncodeInteger(uint64(s.clock.wall().UnixNano())))
}

// timeRecord is store time as it was last written.
type timeRecord struct {
	storeTime int64
	wall      int64 // wall clock of the process that wrote it; 0: the store was made just now
}

// shortestDowntime is the shortest pause after which a shared store may have been
// without processes. Running processes write store time every second.
const shortestDowntime = 2 * heartbeatEvery

// A process that opens a shared store watches whether others write store time, for
// observeFor and every observeEvery.
const (
	observeFor   = 3 * heartbeatEvery
	observeEvery = heartbeatEvery / 2
)

// resumeStoreTime adds the downtime, in which no process ran, to store time. Unless the
// caller has watched the store, only wall clocks can tell how long it was. It runs before anything is timed: a lease
// granted before store time jumps would end early.
func (s *Store) resumeStoreTime(ctx context.Context, last timeRecord, o Options) error {
	s.clock.advance(last.storeTime)
	switch gap := s.clock.gap(last); {
	case last.wall == 0:
		return nil
	case o.Downtime != nil:
		// What fell due is what holders of leases could not settle: they come first.
		s.wasDown = true
		s.clock.advance(last.storeTime + int64(*o.Downtime))
		return nil
	case o.Exclusive:
		// In memory only: the next heartbeat writes it.
		s.wasDown = true
		s.clock.advance(last.storeTime + int64(gap))
		return nil
	case gap <= shortestDowntime:
		return nil
	}
	for range observeFor / observeEvery {
		if err := s.clock.wait(ctx, observeEvery); err != nil {
			return err
		}
		seen, err := s.lastTimeRecord(ctx)
		if err != nil {
			return err
		}
		if seen != last {
			s.clock.advance(seen.storeTime)
			return nil
		}
	}
	return s.catchUp(ctx, last)
}

// gap is the time since store time was last written, by wall clocks.
func (c *clock) gap(last timeRecord) time.Duration {
	return time.Duration(c.wall().UnixNano() - last.wall)
}

func (s *Store) lastTimeRecord(ctx context.Context) (last timeRecord, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		last, err = readTimeRecord(r)
		return err
	})
	return last, err
}

func readTimeRecord(r kv.Reader) (timeRecord, error) {
	rows, err := r.GetAll([][]byte{row(spaceTime), row(spaceWall)})
	if err != nil {
		return timeRecord{}, err
	}
	return timeRecord{storeTime: int64(kv.DecodeInteger(rows[0])), wall: int64(kv.DecodeInteger(rows[1]))}, nil
}

// catchUp writes store time with the downtime added. Of several processes that
// start at the same time one does so, and the others adopt its result.
func (s *Store) catchUp(ctx context.Context, last timeRecord) error {
	for {
		var now int64
		err := s.db.Update(ctx, func(tx kv.Tx) error {
			seen, err := readTimeRecord(tx)
			if err != nil {
				return err
			}
			now = seen.storeTime
			if seen == last {
				now += int64(max(0, s.clock.gap(last)))
				s.writeStoreTime(tx, now)
			}
			return nil
		})
		if errors.Is(err, kv.ErrUnknown) {
			continue // the second attempt finds what the first one wrote
		}
		if err != nil {
			return err
		}
		s.wasDown = true
		s.clock.advance(now)
		return nil
	}
}
