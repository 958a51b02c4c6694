package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// grace is how long after a downtime due timers wait, so that consumers can
// reconnect and settle their leases.
const grace = 3 * time.Second

// Maintenance has callbacks for Maintain; each may be nil.
type Maintenance struct {
	Event   func(Event)
	Problem func(error) // a step failed; Maintain goes on
	Alive   func()      // a heartbeat was committed, as happens every second
	Found   func(Found) // a sweep has found keys
}

// Maintain writes heartbeats, sweeps due timers and clears garbage until ctx ends.
// Every process that serves a store runs it once. It reports a problem while schedules wait and no process fires them:
// package schedule does.
func (s *Store) Maintain(ctx context.Context, m Maintenance) {
	if m.Event == nil {
		m.Event = func(Event) {}
	}
	if m.Problem == nil {
		m.Problem = func(error) {}
	}
	if m.Alive == nil {
		m.Alive = func() {}
	}
	if m.Found == nil {
		m.Found = func(Found) {}
	}
	begin := s.inside.Clock.Elapsed()
	if s.wasDown {
		begin += grace
	}
	cleanup := cleanup{store: s}
	unfired := unfired{store: s, looked: s.inside.Clock.Elapsed()}
	due := time.NewTimer(0)
	defer due.Stop()
	beat := time.NewTicker(storetime.Every)
	defer beat.Stop()
	for beats := true; ; {
		if beats {
			if inside.Step(ctx, m.Problem, s.Beat) {
				m.Alive()
			}
			inside.Step(ctx, m.Problem, cleanup.step)
			inside.Step(ctx, m.Problem, unfired.step)
			beats = false
		}
		s.alarm.reset()
		inside.Step(ctx, m.Problem, func(ctx context.Context) error {
			if early := begin - s.inside.Clock.Elapsed(); early > 0 {
				s.alarm.expect(s.inside.Clock.Now() + int64(early))
				return nil
			}
			next, err := s.sweepOnce(ctx, &m)
			if err == nil && next > 0 {
				s.alarm.expect(s.inside.Clock.Now() + int64(next))
			}
			return err
		})
		for waits := true; waits; {
			due.Reset(s.alarm.until(s.inside.Clock.Now()))
			select {
			case <-ctx.Done():
				return
			case <-s.alarm.ring: // an earlier timer was set
			case <-due.C:
				waits = false
			case <-beat.C:
				beats, waits = true, false
			}
		}
	}
}

// Beat writes this process's estimate of store time, and that the process is alive, so that others know of it before
// it serves. Maintain does so from then on.
func (s *Store) Beat(ctx context.Context) error {
	err := s.inside.DB.Update(ctx, func(tx kv.Tx) error {
		now, err := s.inside.Clock.At(tx.Snapshot())
		if err != nil {
			return err
		}
		s.inside.Clock.Write(tx, now)
		s.sessions.Beat(tx, now)
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat writes it again
	}
	return err
}

// sweepOnce sweeps and returns the time until the next sweep, 0 without timers. If more timers
// are due, the next sweep is at once, but heartbeats come first. A long work takes half of the time at
// most: the keys of a queue may be many, and each part of the work may have pops of strict
// queues run again. One that takes no longer than two parts wins in its second run.
func (s *Store) sweepOnce(ctx context.Context, m *Maintenance) (time.Duration, error) {
	began := s.inside.Clock.Elapsed()
	swept, err := s.Sweep(ctx)
	if swept.goesOn {
		swept.Next = max(1, s.inside.Clock.Elapsed()-began)
	}
	if s.inside.Damaged.Noted(err) {
		m.Problem(err)
		return 1, nil
	}
	s.inside.Later.Report(swept.passed.queues, m.Problem)
	for _, event := range swept.Events {
		m.Event(event)
	}
	m.Found(swept.Found)
	return swept.Next, err
}

// cleanupFor bounds the time of a round that clears garbage, so that due timers do
// not wait for it.
const cleanupFor = 200 * time.Millisecond

// retireEvery is the interval between searches for sessions of dead processes.
const retireEvery = 10 * time.Minute

// cleanup clears garbage and the sessions of dead processes, a little at a time.
type cleanup struct {
	store   *Store
	retired time.Duration // when sessions were last retired, by the process's clock
}

func (t *cleanup) step(ctx context.Context) error {
	start := t.store.inside.Clock.Elapsed()
	for more := true; more && t.store.inside.Clock.Elapsed()-start < cleanupFor; {
		var err error
		if more, err = t.store.CollectGarbage(ctx); err != nil {
			return err
		}
	}
	if start-t.retired < retireEvery {
		return nil
	}
	t.retired = start
	for next, err := t.store.RetireSessions(ctx, nil); next != nil || err != nil; next, err = t.store.RetireSessions(ctx, next) {
		if err != nil {
			return err
		}
	}
	return nil
}
