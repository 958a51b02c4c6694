package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// heartbeatEvery is how often a process moves store time forward, and how
// soon it notices timers that other processes set.
const heartbeatEvery = time.Second

// observeFor is how long a process that has just started watches whether
// others move store time before it believes that none was running.
const observeFor = 3 * heartbeatEvery

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

// retireEvery is how often lanes of dead processes are looked for.
const retireEvery = 10 * time.Minute

// tidy clears what nothing refers to any more, a little at a time.
type tidy struct {
	store   *Store
	retired time.Duration // when lanes were last looked through, by the process's clock
}

func (t *tidy) step(ctx context.Context) error {
	start := t.store.clock.elapsed()
	for more := true; more && t.store.clock.elapsed()-start < tidyFor; {
		var err error
		if more, err = t.store.Collect(ctx); err != nil {
			return err
		}
	}
	if start-t.retired < retireEvery {
		return nil
	}
	t.retired = start
	for next, err := t.store.Retire(ctx, nil); next != nil || err != nil; next, err = t.store.Retire(ctx, next) {
		if err != nil {
			return err
		}
	}
	return nil
}

// pulse moves store time forward.
type pulse struct {
	store   *Store
	started bool
	since   time.Duration // start of the observation, by the process's clock
	seen    uint64        // store time then
	alive   bool          // the observation is over
}

// beat moves store time to this process's estimate. A process that has just
// started only looks on for a while: if nobody else moves store time then, no
// process ran since it was last moved, and only a wall clock can tell how long
// that was.
func (p *pulse) beat(ctx context.Context) error {
	var seen, wall uint64
	err := p.store.db.View(ctx, func(r kv.Reader) error {
		rows, err := r.GetAll([][]byte{row(spaceTime), row(spaceWall)})
		if err != nil {
			return err
		}
		seen = kv.DecodeInteger(rows[0])
		wall = kv.DecodeInteger(rows[1])
		return nil
	})
	if err != nil {
		return err
	}
	p.store.clock.advance(int64(seen))
	if !p.alive {
		if !p.started {
			p.started, p.since, p.seen = true, p.store.clock.elapsed(), seen
			return nil
		}
		if seen == p.seen && p.store.clock.elapsed()-p.since < observeFor {
			return nil
		}
		if seen == p.seen {
			gap := p.store.clock.wall().UnixNano() - int64(wall)
			p.store.clock.advance(int64(seen) + gap)
		}
		p.alive = true
	}
	return p.write(ctx)
}

func (p *pulse) write(ctx context.Context) error {
	err := p.store.db.Update(ctx, func(tx kv.Tx) error {
		now := p.store.clock.now()
		tx.Max(row(spaceTime), uint64(now))
		tx.Set(row(spaceWall), kv.EncodeInteger(uint64(p.store.clock.wall().UnixNano())))
		tx.Set(p.store.processRow(), tuple.AppendInt(nil, now))
		return nil
	})
	if errors.Is(err, kv.ErrUnknown) {
		return nil // the next beat says the same
	}
	return err
}
