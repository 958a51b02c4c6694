package schedule

import (
	"context"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
)

// Runner has callbacks for Run, which never run at the same time; each may be nil.
type Runner struct {
	Event   func(fdbpq.Event) // of an item
	Problem func(error)       // a step failed; Run goes on
	Fired   func(Fired)       // schedules were looked at; behind the events

	Room Room // nil: queues take items of schedules whenever they have room

	// Owner says whose a queue is: owners take turns with what their schedules push. nil: all queues are of one.
	Owner func(queue string) string
}

// Run fires schedules until ctx ends. Every process that serves a store runs it once, beside Maintain of the store:
// leases do not wait for schedules.
func (s *Schedules) Run(ctx context.Context, r Runner) {
	if r.Event == nil {
		r.Event = func(fdbpq.Event) {}
	}
	if r.Problem == nil {
		r.Problem = func(error) {}
	}
	if r.Fired == nil {
		r.Fired = func(Fired) {}
	}
	s.inside.Fires.Store(true)
	defer s.inside.Fires.Store(false)
	due := time.NewTimer(storetime.Every)
	defer due.Stop()
	for {
		due.Reset(s.step(ctx, &r))
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
	}
}

// step fires once, and returns after what time there is something to do again.
func (s *Schedules) step(ctx context.Context, r *Runner) (wait time.Duration) {
	wait = storetime.Every
	inside.Step(ctx, r.Problem, func(ctx context.Context) error {
		fired, err := s.Fire(ctx, r.Room, r.Owner)
		switch {
		case s.inside.Damaged.Noted(err):
			wait = 1
		case err == nil:
			if fired.Next > 0 {
				wait = min(wait, fired.Next)
			}
			for _, event := range fired.Events {
				r.Event(event)
			}
			r.Fired(fired)
		}
		return err
	})
	return wait
}
