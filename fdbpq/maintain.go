package fdbpq

import (
	"context"
	"errors"
	"time"
)

// grace is how long what fell due while no process ran is left alone after the
// start: holders of leases come back and acknowledge what they have done.
const grace = 3 * time.Second

// patience is how long a step of Maintain waits for the store, so that one that
// is away is noticed.
const patience = 5 * time.Second

// Maintenance is told what Maintain comes across. Its functions may be nil.
type Maintenance struct {
	Event   func(Event)
	Problem func(error) // the work goes on
	Alive   func()      // the store has committed, as it should every second
}

// Maintain keeps store time going and does due work until ctx ends. Every
// process that serves a store should run it once.
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
	pulse := pulse{store: s}
	begin := s.clock.elapsed()
	if s.resumed {
		begin += grace
	}
	tidy := tidy{store: s}
	due := time.NewTimer(0)
	defer due.Stop()
	beat := time.NewTicker(heartbeatEvery)
	defer beat.Stop()
	for beats := true; ; {
		if beats {
			if m.step(ctx, pulse.beat) {
				m.Alive()
			}
			m.step(ctx, tidy.step)
			beats = false
		}
		s.due.sleep()
		m.step(ctx, func(ctx context.Context) error {
			if early := begin - s.clock.elapsed(); early > 0 {
				s.due.expect(s.clock.now() + int64(early))
				return nil
			}
			next, err := s.sweepAll(ctx, m.Event, m.Problem)
			if err == nil && next > 0 {
				s.due.expect(s.clock.now() + int64(next))
			}
			return err
		})
		for waits := true; waits; {
			due.Reset(s.due.in(s.clock.now()))
			select {
			case <-ctx.Done():
				return
			case <-s.due.ring: // an earlier timer was set
			case <-due.C:
				waits = false
			case <-beat.C:
				beats, waits = true, false
			}
		}
	}
}

// step does some of the work, for as long as the store may take, and says
// whether it was done. A problem is reported, unless it is that the work has to
// end.
func (m *Maintenance) step(ctx context.Context, work func(context.Context) error) bool {
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := work(limited)
	if err != nil && ctx.Err() == nil {
		m.Problem(err)
	}
	return err == nil
}

// sweepAll sweeps until nothing is due, and returns when something will be.
func (s *Store) sweepAll(ctx context.Context, report func(Event), problem func(error)) (time.Duration, error) {
	for {
		swept, err := s.Sweep(ctx)
		var damage *timerError
		if errors.As(err, &damage) && s.aside.has(damage.key) {
			problem(err)
			continue
		}
		if err != nil {
			return 0, err
		}
		for _, event := range swept.Events {
			report(event)
		}
		if swept.Busy || swept.Timers == 0 || swept.Next == 0 || swept.Next > 1 {
			return swept.Next, nil
		}
	}
}

// tidyFor bounds how long a round of Maintain clears what purges left behind,
// so that due work does not wait for it.
const tidyFor = 200 * time.Millisecond

// retireEvery is how often sessions of dead processes are looked for.
const retireEvery = 10 * time.Minute

// tidy clears what nothing refers to any more, a little at a time.
type tidy struct {
	store   *Store
	retired time.Duration // when sessions were last looked through, by the process's clock
}

func (t *tidy) step(ctx context.Context) error {
	start := t.store.clock.elapsed()
	for more := true; more && t.store.clock.elapsed()-start < tidyFor; {
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
