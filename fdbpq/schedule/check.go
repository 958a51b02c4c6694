package schedule

import (
	"context"
	"errors"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Check reads all rows of schedules and returns a sentence for each violation of an invariant, up to a hundred.
// Nothing may write to the store meanwhile: a concurrent write looks like damage. [fdbpq.Store.Check] checks all other
// rows.
//
// The invariants:
//   - every row can be parsed, and is of a queue that exists;
//   - a schedule has a definition and a progress, and the one index row that it needs;
//   - schedules are counted.
func (s *Schedules) Check(ctx context.Context) ([]string, error) {
	w := walk{
		store: s.store, rows: make(map[id]*record), counts: make(map[home]counts), due: make(map[string]bool), born: make(map[string]int64),
	}
	for _, part := range []struct {
		space string
		check func(context.Context, kv.Pair) error
	}{
		{layout.SpaceSchedule, w.definition}, {layout.SpaceProgress, w.progress}, {layout.SpaceSchedules, w.counted}, {layout.SpaceDue, w.index},
	} {
		row := func(pair kv.Pair) error { return part.check(ctx, pair) }
		if err := w.Visit(ctx, s.inside.DB, part.space, row); err != nil {
			return nil, fmt.Errorf("check schedules: %w", err)
		}
	}
	w.balance()
	return w.Problems, nil
}

// walk is the state of a Check under way.
type walk struct {
	inside.Findings
	store  *fdbpq.Store
	rows   map[id]*record
	counts map[home]counts  // as the store has them
	due    map[string]bool  // index rows that schedules need, as long as they are not found
	born   map[string]int64 // of queues; -1: there is none
}

// id names a schedule.
type id struct {
	home
	name string
}

// bornAt is the generation at which a queue was made, -1 if there is none.
func (w *walk) bornAt(ctx context.Context, queue string) (born int64, err error) {
	if born, known := w.born[queue]; known {
		return born, nil
	}
	err = w.store.View(ctx, func(r kv.Reader) (err error) {
		born, err = w.store.Queue(queue).Born(r)
		return err
	})
	if errors.Is(err, fdbpq.ErrNoQueue) {
		born, err = -1, nil
	}
	if err == nil {
		w.born[queue] = born
	}
	return born, err
}

// home reads where the schedules of a row's queue are. rest is the key behind that.
func (w *walk) home(ctx context.Context, space string, key []byte) (h home, rest []byte, err error) {
	k := tuple.Read(key[len(layout.Row(space)):])
	h = home{k.Text(), k.Int()}
	if rest, err = k.Rest(), k.Err(); err != nil {
		return h, nil, err
	}
	born, err := w.bornAt(ctx, h.queue)
	if err == nil && born != h.born {
		err = fmt.Errorf("schedules of no queue: born in %d", h.born)
	}
	return h, rest, err
}

func (w *walk) id(ctx context.Context, space string, key []byte) (id, error) {
	h, rest, err := w.home(ctx, space, key)
	if err != nil {
		return id{}, err
	}
	name, _, err := tuple.ConsumeString(rest)
	return id{h, name}, err
}

// definition checks what a schedule is. That comes before how far it is.
func (w *walk) definition(ctx context.Context, pair kv.Pair) error {
	of, err := w.id(ctx, layout.SpaceSchedule, pair.Key)
	if err != nil {
		return err
	}
	w.rows[of] = new(record)
	return w.rows[of].parseDefinition(pair.Value)
}

// progress checks how far a schedule is.
func (w *walk) progress(ctx context.Context, pair kv.Pair) error {
	of, err := w.id(ctx, layout.SpaceProgress, pair.Key)
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
		w.Problem("schedule %q of queue %q has the due time %d, paused: %t", of.name, of.queue, row.due, row.config.Paused)
	}
	if at := row.nextVisit(); at != 0 {
		w.due[string(dueRow(at, of.home, of.name))] = true
	}
	return nil
}

// counted checks the counts of a queue's schedules.
func (w *walk) counted(ctx context.Context, pair kv.Pair) error {
	h, _, err := w.home(ctx, layout.SpaceSchedules, pair.Key)
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
	born, err := w.bornAt(ctx, e.home.queue)
	if err == nil && born == e.home.born {
		err = fmt.Errorf("a schedule is to be looked at at another time, or not at all")
	}
	return err
}

// balance reports differences between expected and existing rows.
func (w *walk) balance() {
	for key := range w.due {
		w.Problem("row %q is missing", key)
	}
	counted := make(map[home]counts)
	for of, row := range w.rows {
		n := counted[of.home]
		n.add(row, 1)
		counted[of.home] = n
		if row.created == 0 {
			w.Problem("schedule %q of queue %q has no progress", of.name, of.queue)
		}
	}
	for h, n := range counted {
		if stored := w.counts[h]; stored != n {
			w.Problem("queue %q: counts of schedules are %+v, counted %+v", h.queue, stored, n)
		}
		delete(w.counts, h)
	}
	for h, n := range w.counts {
		w.Problem("queue %q: counts of schedules are %+v, there are none", h.queue, n)
	}
}
