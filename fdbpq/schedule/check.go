package schedule

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	births named.Births
	rows   map[named.ID]*record
	counts map[named.Home]counts // as the store has them
	due    map[string]bool       // index rows that schedules need, as long as they are not found
}

func (w *walk) all(ctx context.Context, db kv.DB) ([]string, error) {
	for _, part := range []struct {
		space string
		check func(context.Context, kv.Pair) error
	}{
		{layout.SpaceSchedule, w.definition}, {layout.SpaceProgress, w.progress}, {layout.SpaceSchedules, w.counted}, {layout.SpaceDue, w.index},
	} {
		row := func(pair kv.Pair) error { return part.check(ctx, pair) }
		if err := w.Visit(ctx, db, part.space, row); err != nil {
			return nil, fmt.Errorf("check schedules: %w", err)
		}
	}
	w.balance()
	return w.Problems, nil
}

// definition checks what a schedule is. That comes before how far it is.
func (w *walk) definition(ctx context.Context, pair kv.Pair) error {
	of, err := w.births.ID(ctx, layout.SpaceSchedule, pair.Key)
	if err != nil {
		return err
	}
	w.rows[of] = new(record)
	return w.rows[of].parseDefinition(pair.Value)
}

// progress checks how far a schedule is.
func (w *walk) progress(ctx context.Context, pair kv.Pair) error {
	of, err := w.births.ID(ctx, layout.SpaceProgress, pair.Key)
	if err != nil {
		return err
	}
	row := w.rows[of]
	if row == nil {
		return fmt.Errorf("progress of no schedule")
	}
	if err := row.parse(pair.Value); err != nil {
		return err
	}
	if row.created == 0 || (row.due == 0) != row.config.Paused && !row.done() {
		w.Problem("schedule %q of queue %q has the due time %d, paused: %t", of.Name, of.Queue, row.due, row.config.Paused)
	}
	if at := row.nextVisit(); at != 0 {
		w.due[string(dueRow(at, home{of.Home}, of.Name))] = true
	}
	return nil
}

// counted checks the counts of a queue's schedules.
func (w *walk) counted(ctx context.Context, pair kv.Pair) error {
	h, _, err := named.ParseHome(layout.SpaceSchedules, pair.Key)
	if err == nil {
		err = w.births.Check(ctx, h)
	}
	if err == nil {
		w.counts[h], err = parseCounts(pair.Value)
	}
	return err
}

// index checks a row of the index. A row of a queue that was deleted goes when it falls due.
func (w *walk) index(ctx context.Context, pair kv.Pair) error {
	e, err := parseDue(pair.Key)
	if err != nil {
		return err
	}
	if w.due[string(pair.Key)] {
		delete(w.due, string(pair.Key))
		return nil
	}
	lives, err := w.births.Lives(ctx, e.home.Home)
	if err == nil && lives {
		err = fmt.Errorf("a schedule is to be looked at at another time, or not at all")
	}
	return err
}

// balance reports differences between expected and existing rows.
func (w *walk) balance() {
	for key := range w.due {
		w.Problem("row %q is missing", key)
	}
	counted := make(map[named.Home]counts)
	for of, row := range w.rows {
		n := counted[of.Home]
		n.add(row, 1)
		counted[of.Home] = n
		if row.created == 0 {
			w.Problem("schedule %q of queue %q has no progress", of.Name, of.Queue)
		}
	}
	for h, n := range counted {
		if stored := w.counts[h]; stored != n {
			w.Problem("queue %q: counts of schedules are %+v, counted %+v", h.Queue, stored, n)
		}
		delete(w.counts, h)
	}
	for h, n := range w.counts {
		w.Problem("queue %q: counts of schedules are %+v, there are none", h.Queue, n)
	}
}
