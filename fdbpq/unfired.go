package fdbpq

import (
	"context"
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A program that uses this package alone, and serves a store with schedules, would lose their times in silence.

// unfiredEvery is how often a process looks whether schedules wait in vain. A process that is to fire them may take so
// long to begin.
const unfiredEvery = time.Minute

var errUnfired = errors.New("schedules wait, and no process fires them: expected schedule.Schedules.Run of package fdbpq/schedule in a process that serves the store")

// unfired reports schedules that no process fires.
type unfired struct {
	store  *Store
	looked time.Duration // when it looked last, by the process's clock
	waited int           // how often in a row schedules waited
}

// step looks if it is time to. It reports schedules that have waited twice in a row.
func (u *unfired) step(ctx context.Context) error {
	now := u.store.inside.Clock.Elapsed()
	if now-u.looked < unfiredEvery {
		return nil
	}
	u.looked = now
	waits, err := u.waits(ctx)
	if err != nil || !waits {
		u.waited = 0
		return err
	}
	if u.waited++; u.waited > 1 {
		return errUnfired
	}
	return nil
}

// waits reports whether there are schedules with a further time, and no process has the term to fire them.
func (u *unfired) waits(ctx context.Context) (waits bool, err error) {
	if u.store.inside.Fires.Load() {
		return false, nil
	}
	begin, end := tuple.Range(layout.Row(layout.SpaceDue))
	err = u.store.View(ctx, func(r kv.Reader) error {
		due, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
		if err != nil || len(due) == 0 {
			return err
		}
		now, err := u.store.inside.Clock.At(r)
		if err != nil {
			return err
		}
		_, until, err := u.store.inside.Term(r, layout.SpaceRunner)
		waits = until <= now-int64(unfiredEvery) // a term may end a moment before the next one begins
		return err
	})
	return waits && err == nil, err
}
