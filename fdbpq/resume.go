package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// moved is store time as it was last written.
type moved struct {
	to   int64
	wall int64 // wall clock of the process that wrote it; 0: the store was made just now
}

// shortest is the shortest pause in which a store that several processes may
// open is taken for stopped. Running processes move store time every second.
const shortest = 2 * heartbeatEvery

// A process that opens such a store watches whether others move store time,
// for so long and so often.
const (
	observeFor   = 3 * heartbeatEvery
	observeEvery = heartbeatEvery / 2
)

// resume brings store time up to date before anything is timed by it. While no
// process ran, only wall clocks can tell how much time passed: that much is
// added. A lease or a TTL that was given before would end early by all of it.
func (s *Store) resume(ctx context.Context, last moved, exclusive bool) error {
	s.clock.advance(last.to)
	switch gap := s.clock.gap(last); {
	case last.wall == 0, gap <= 0:
		return nil
	case exclusive:
		// In memory alone: the next beat writes it.
		s.resumed = true
		s.clock.advance(last.to + int64(gap))
		return nil
	case gap <= shortest:
		return nil
	}
	for range observeFor / observeEvery {
		if err := s.clock.wait(ctx, observeEvery); err != nil {
			return err
		}
		seen, err := s.lastMoved(ctx)
		if err != nil {
			return err
		}
		if seen != last {
			s.clock.advance(seen.to)
			return nil
		}
	}
	return s.catchUp(ctx, last)
}

// gap is how long ago store time was last moved, by wall clocks.
func (c *clock) gap(last moved) time.Duration {
	return time.Duration(c.wall().UnixNano() - last.wall)
}

func (s *Store) lastMoved(ctx context.Context) (last moved, err error) {
	err = s.db.View(ctx, func(r kv.Reader) (err error) {
		last, err = readMoved(r)
		return err
	})
	return last, err
}

func readMoved(r kv.Reader) (moved, error) {
	rows, err := r.GetAll([][]byte{row(spaceTime), row(spaceWall)})
	if err != nil {
		return moved{}, err
	}
	return moved{to: int64(kv.DecodeInteger(rows[0])), wall: int64(kv.DecodeInteger(rows[1]))}, nil
}

// catchUp adds the time in which no process ran. Of several processes that start
// at the same time one does, and all go by it.
func (s *Store) catchUp(ctx context.Context, last moved) error {
	for {
		var now int64
		err := s.db.Update(ctx, func(tx kv.Tx) error {
			seen, err := readMoved(tx)
			if err != nil {
				return err
			}
			now = seen.to
			if seen == last {
				now += int64(max(0, s.clock.gap(last)))
				s.move(tx, now)
			}
			return nil
		})
		if errors.Is(err, kv.ErrUnknown) {
			continue // what the first attempt wrote, the second one finds
		}
		if err != nil {
			return err
		}
		s.resumed = true
		s.clock.advance(now)
		return nil
	}
}
