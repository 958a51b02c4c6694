package fdbpq_test

import (
	"context"
	"errors"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// sweepOf sweeps until nothing is due or another process has the work.
func sweepOf() operation {
	return operation{
		name: "sweep",
		whole: func(ctx context.Context, p *process) (outcome, error) {
			var out outcome
			for {
				swept, err := p.store.Sweep(ctx)
				if errors.Is(err, kv.ErrUnavailable) {
					continue
				}
				if err != nil {
					return out, err
				}
				out.Events = append(out.Events, eventsOf(swept.Events)...)
				for _, queue := range swept.Deleted {
					out.Events = append(out.Events, "deleted "+queue)
				}
				out.OK = out.OK || swept.Timers > 0
				if swept.Timers == 0 {
					out.N = int64(swept.Next)
					if swept.Busy {
						out.N = -1
					}
					return out, nil
				}
			}
		},
		expect: func(m *model, at moment, _ outcome) outcome {
			out := m.sweep(at)
			if out.N == 0 {
				out.N = int64(m.next(at))
			}
			return out
		},
	}
}

// collectOf clears all that purges left behind.
func collectOf() operation {
	return operation{
		name: "collect",
		whole: func(ctx context.Context, p *process) (outcome, error) {
			for {
				if more, err := p.store.CollectGarbage(ctx); err != nil || !more {
					return outcome{}, err
				}
			}
		},
		expect: func(m *model, at moment, _ outcome) outcome {
			garbage := 0
			for _, q := range m.queues {
				garbage += q.garbage
			}
			if garbage == 0 || m.becomeSweeper(at) {
				return outcome{}
			}
			for _, q := range m.queues {
				q.garbage = 0
			}
			m.stale = slices.DeleteFunc(m.stale, func(d due) bool { return d.id == "" })
			return outcome{}
		},
	}
}
