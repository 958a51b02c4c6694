package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
