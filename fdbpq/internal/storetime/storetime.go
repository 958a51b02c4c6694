// Package storetime keeps the time of a store: nanoseconds that never decrease, in one row that
// every process moves forward by its own monotonic clock.
package storetime

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Clock estimates store time. A wrong wall clock neither ends leases early nor extends them.
type Clock struct {
	Wall    func() time.Time     // the time of day
	Elapsed func() time.Duration // since some fixed moment

	wait       func(context.Context, time.Duration) error
	timeRow    []byte
	wallRow    []byte
	base       atomic.Int64 // store time minus elapsed
	wallOffset atomic.Int64 // wall clock minus store time, as it was last displayed
}

// Clocks replace the machine's clocks in tests. What is nil is the machine's.
type Clocks struct {
	Wall    func() time.Time
	Elapsed func() time.Duration
	Wait    func(context.Context, time.Duration) error
}

// New returns a clock that keeps store time in one row, and when that was written, by the wall
// clock, in another one.
func New(timeRow, wallRow []byte, clocks Clocks) *Clock {
	c := &Clock{Wall: clocks.Wall, Elapsed: clocks.Elapsed, wait: clocks.Wait, timeRow: timeRow, wallRow: wallRow}
	if c.Wall == nil {
		c.Wall = time.Now
	}
	if c.Elapsed == nil {
		start := time.Now()
		c.Elapsed = func() time.Duration { return time.Since(start) }
	}
	if c.wait == nil {
		c.wait = wait
	}
	return c
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

// Now is this process's estimate.
func (c *Clock) Now() int64 { return int64(c.Elapsed()) + c.base.Load() }

// advance makes the estimate at least seen, and returns it.
func (c *Clock) advance(seen int64) int64 {
	for {
		now, ahead := int64(c.Elapsed()), c.base.Load()
		if now+ahead >= seen {
			return now + ahead
		}
		if c.base.CompareAndSwap(ahead, seen-now) {
			return seen
		}
	}
}

// At is store time for a transaction: never earlier than what another process
// has written. Transactions pass their snapshot reader, since a dependency on the
// row would conflict with every heartbeat.
func (c *Clock) At(r kv.Reader) (int64, error) {
	seen, err := r.Get(c.timeRow)
	if err != nil {
		return 0, err
	}
	return c.advance(int64(kv.DecodeInteger(seen))), nil
}

// sameOffset is the difference between two readings of both clocks that counts
// as none. The clocks cannot be read at one instant, but the same store time should
// be displayed the same each time.
const sameOffset = time.Millisecond

// Display turns a store time into the time of day by this process's wall clock. On a
// busy machine much time may pass between readings of the two clocks. So the one is
// read before and after the other, and the offset stays if it may be the same.
func (c *Clock) Display(at int64) time.Time {
	before, wall, after := c.Now(), c.Wall().UnixNano(), c.Now()
	offset := c.wallOffset.Load()
	if offset <= wall-after-int64(sameOffset) || offset >= wall-before+int64(sameOffset) {
		offset = wall - after
		c.wallOffset.Store(offset)
	}
	return time.Unix(0, at+offset)
}

// Every is the interval at which processes write store time.
const Every = time.Second

// Write writes now as store time.
func (c *Clock) Write(tx kv.Tx, now int64) {
	tx.Max(c.timeRow, uint64(now))
	tx.Set(c.wallRow, kv.EncodeInteger(uint64(c.Wall().UnixNano())))
}

// Record is store time as it was last written.
type Record struct {
	StoreTime int64
	Wall      int64 // wall clock of the process that wrote it; 0: the store was made just now
}

// shortestDowntime is the shortest pause after which a shared store may have been
// without processes. Running processes write store time every second.
const shortestDowntime = 2 * Every

// A process that opens a shared store watches whether others write store time, for
// observeFor and every observeEvery.
const (
	observeFor   = 3 * Every
	observeEvery = Every / 2
)

// Resume adds the downtime, in which no process ran, to store time, and reports whether there was
// one. Unless the caller knows it, only wall clocks can tell how long it was. Nobody else writes to
// an exclusive store. Resume runs before anything is timed: a lease granted before store time jumps
// would end early.
func (c *Clock) Resume(ctx context.Context, db kv.DB, last Record, downtime *time.Duration, exclusive bool) (wasDown bool, err error) {
	c.advance(last.StoreTime)
	switch gap := c.gap(last); {
	case last.Wall == 0:
		return false, nil
	case downtime != nil:
		// What fell due is what holders of leases could not settle: they come first.
		c.advance(last.StoreTime + int64(*downtime))
		return true, nil
	case exclusive:
		// In memory only: the next heartbeat writes it.
		c.advance(last.StoreTime + int64(gap))
		return true, nil
	case gap <= shortestDowntime:
		return false, nil
	}
	for range observeFor / observeEvery {
		if err := c.wait(ctx, observeEvery); err != nil {
			return false, err
		}
		var seen Record
		err := db.View(ctx, func(r kv.Reader) (err error) {
			seen, err = c.read(r)
			return err
		})
		if err != nil {
			return false, err
		}
		if seen != last {
			c.advance(seen.StoreTime)
			return false, nil
		}
	}
	return true, c.catchUp(ctx, db, last)
}

// gap is the time since store time was last written, by wall clocks.
func (c *Clock) gap(last Record) time.Duration {
	return time.Duration(c.Wall().UnixNano() - last.Wall)
}

func (c *Clock) read(r kv.Reader) (Record, error) {
	rows, err := r.GetAll([][]byte{c.timeRow, c.wallRow})
	if err != nil {
		return Record{}, err
	}
	return Record{StoreTime: int64(kv.DecodeInteger(rows[0])), Wall: int64(kv.DecodeInteger(rows[1]))}, nil
}

// catchUp writes store time with the downtime added. Of several processes that
// start at the same time one does so, and the others adopt its result.
func (c *Clock) catchUp(ctx context.Context, db kv.DB, last Record) error {
	for {
		var now int64
		err := db.Update(ctx, func(tx kv.Tx) error {
			seen, err := c.read(tx)
			if err != nil {
				return err
			}
			now = seen.StoreTime
			if seen == last {
				now += int64(max(0, c.gap(last)))
				c.Write(tx, now)
			}
			return nil
		})
		if errors.Is(err, kv.ErrUnknown) {
			continue // the second attempt finds what the first one wrote
		}
		if err == nil {
			c.advance(now)
		}
		return err
	}
}

// Stamp returns the store with store time in each of its transactions that writes anything. So a process
// that goes on with the store, and knows how long ago the last of them was, knows the time that had come by then.
// The time is later than all that the transaction has used.
func (c *Clock) Stamp(db kv.DB) kv.DB { return stamped{db, c} }

type stamped struct {
	kv.DB
	clock *Clock
}

func (s stamped) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return s.DB.Update(ctx, func(tx kv.Tx) error {
		t := writes{Tx: tx}
		if err := fn(&t); err != nil || !t.any {
			return err
		}
		s.clock.Write(tx, s.clock.Now())
		return nil
	})
}

// writes notes whether a transaction writes: one that only reads is to stay so.
type writes struct {
	kv.Tx
	any bool
}

func (t *writes) Set(key, value []byte) {
	t.any = true
	t.Tx.Set(key, value)
}

func (t *writes) Clear(key []byte) {
	t.any = true
	t.Tx.Clear(key)
}

func (t *writes) ClearRange(begin, end []byte) {
	t.any = true
	t.Tx.ClearRange(begin, end)
}

func (t *writes) Add(key []byte, delta int64) {
	t.any = true
	t.Tx.Add(key, delta)
}

func (t *writes) Max(key []byte, value uint64) {
	t.any = true
	t.Tx.Max(key, value)
}
