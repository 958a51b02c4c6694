package fdbpq

import (
	"context"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// administer begins an operation on the queue itself, which need not exist. It finds written
// what others have changed together: the rows belong to the state that the queue has now.
func (q Queue) administer(tx kv.Tx) (*queueTx, error) {
	qtx, err := q.open(tx)
	if err == nil {
		err = qtx.flush()
	}
	return qtx, err
}

// administerIt is administer of a queue that has to exist.
func (q Queue) administerIt(tx kv.Tx) (*queueTx, error) {
	qtx, err := q.administer(tx)
	if err == nil && !qtx.there() {
		err = ErrNoQueue
	}
	return qtx, err
}

// Pause makes pops and peeks find nothing until Resume. Pushes still work. Pause,
// Resume, Purge and Delete return ErrNoQueue when there is no such queue.
func (q Queue) Pause(tx kv.Tx) error { return q.setPaused(tx, true) }

// Resume ends a pause.
func (q Queue) Resume(tx kv.Tx) error { return q.setPaused(tx, false) }

func (q Queue) setPaused(tx kv.Tx, paused bool) error {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return err
	}
	changed := *qtx.state
	changed.paused = paused
	if !paused {
		tx.Add(layout.QueueRow(layout.SpaceArrivals, q.name), 1) // wakes waiting pops
	}
	return qtx.writeState(&changed)
}

// Purge removes all items, leased and delayed ones included, and returns their number. Where the queue is not strict that is the number of the moment
// before: the purge would lose to each push and pop that commits while it runs. It takes constant time: the queue continues in a new
// generation of its key space, and Maintain clears the old one. Message ids stay remembered.
func (q Queue) Purge(tx kv.Tx) (int64, error) {
	return q.supersede(tx, func(*queueState) {})
}

// Delete removes the queue with its items, its configuration and its remembered
// message ids. A later queue of the same name inherits nothing but that repeated pops
// pop no items of it.
func (q Queue) Delete(tx kv.Tx) (int64, error) {
	pops, err := outlivingPops(tx, q.name)
	if err != nil {
		return 0, err
	}
	n, err := q.supersede(tx, func(s *queueState) {
		*s = queueState{generation: s.generation, config: defaultConfig()}
	})
	if err != nil {
		return 0, err
	}
	for _, kind := range layout.RowKinds {
		if kind.Lasts == layout.UntilDelete {
			tx.ClearRange(layout.AllRows(kind.Space, q.name))
		}
	}
	for _, counter := range []int{layout.CounterRemembered, layout.CounterOwing} { // the others belong to generations
		tx.Clear(layout.CounterKey(q.name, 0, counter))
	}
	pops.keep(tx, q.name)
	return n, nil
}

func (q Queue) supersede(tx kv.Tx, alter func(*queueState)) (int64, error) {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return 0, err
	}
	s := qtx.state
	n, err := countsOf(q.name, qtx.front(s), s.generation)
	if err != nil {
		return 0, err
	}
	next := *s
	next.generation++
	alter(&next)
	tx.Set(tuple.AppendInt(layout.QueueRow(layout.SpaceGarbage, q.name), s.generation), nil)
	qtx.assigned = assigned{}
	return n.Length(), qtx.writeState(&next)
}

// garbageRows bounds how many rows one transaction of CollectGarbage reads.
const garbageRows = 500

// CollectGarbage clears rows that purges and deletions left behind, in one bounded
// transaction, and reports whether there are more.
func (s *Store) CollectGarbage(ctx context.Context) (more bool, err error) {
	session := s.Session()
	defer session.Release()
	err = session.Update(ctx, func(tx kv.Tx) error {
		w := sweep{Work: s.work(tx)}
		more, err = w.collect()
		return err
	})
	if err != nil {
		return false, fmt.Errorf("collect garbage: %w", err)
	}
	return more, nil
}

func (w *sweep) collect() (more bool, err error) {
	prefix := layout.Row(layout.SpaceGarbage)
	begin, end := tuple.Range(prefix)
	heaps, err := w.tx.Range(begin, end, kv.RangeOptions{Limit: 1})
	if err != nil || len(heaps) == 0 {
		return false, err
	}
	if w.now, err = w.Work.now(); err != nil {
		return false, err
	}
	if until, err := w.becomeSweeper(); err != nil || until != 0 {
		return false, err
	}
	name, rest, err := tuple.ConsumeString(heaps[0].Key[len(prefix):])
	if err != nil {
		return false, fmt.Errorf("damaged garbage row: %w", err)
	}
	generation, _, err := tuple.ConsumeInt(rest)
	if err != nil {
		return false, fmt.Errorf("damaged garbage row: %w", err)
	}
	done, err := garbage{w.with(name, &queueState{generation: generation})}.clear()
	if err != nil {
		return false, err
	}
	if done {
		w.tx.Clear(heaps[0].Key)
		err = w.clearDeleted(name, generation)
	}
	return err == nil, err
}

// clearDeleted clears the rows that a deleted queue has outside its generations, once
// its last generation is cleared. A later queue of the same name begins with a
// generation that no queue had.
func (w *sweep) clearDeleted(queue string, cleared int64) error {
	s, err := w.store.readStateRow(w.tx, queue)
	if err != nil || s == nil || s.exists || s.generation != cleared+1 {
		return err
	}
	for _, space := range []string{layout.SpaceState, layout.SpaceHigh, layout.SpaceArrivals} {
		w.tx.Clear(layout.QueueRow(space, queue))
	}
	w.tx.Max(layout.Row(layout.SpaceGone), uint64(s.generation))
	return nil
}

// garbage is a past generation of a queue.
type garbage struct{ *queueTx }

// clear clears rows of a past generation and reports whether none is left.
// Items with timers are cleared one by one, together with their timers, and all
// others by one range.
func (g garbage) clear() (done bool, err error) {
	n, err := countsOf(g.name, g.snapshot, g.state.generation)
	if err != nil {
		return false, err
	}
	for _, space := range []string{layout.SpaceLeased, layout.SpaceDelayed, layout.SpaceReady, layout.SpaceKeyed} {
		if (space == layout.SpaceReady || space == layout.SpaceKeyed) && n.Expiring == 0 {
			break
		}
		prefix := g.prefix(space)
		begin, end := tuple.Range(prefix)
		pairs, err := g.snapshot.Range(begin, end, kv.RangeOptions{Limit: garbageRows, MaxBytes: sweepBytes})
		if err != nil {
			return false, err
		}
		for _, pair := range pairs {
			g.clearItem(space, pair, len(prefix))
		}
		if len(pairs) > 0 {
			return false, g.flush()
		}
	}
	for _, kind := range layout.RowKinds {
		if kind.Lasts == layout.OfGeneration {
			begin := g.prefix(kind.Space) // a row of its own in some spaces, which tuple.Range leaves out
			_, end := tuple.Range(begin)
			if kind.Space == layout.SpaceOverhead {
				begin = layout.QueueRow(kind.Space, g.name) // earlier versions leave it when they clear a generation
			}
			g.tx.ClearRange(begin, end)
		}
	}
	return true, nil
}

// clearItem clears an item and its timers. The timers of an item that cannot be
// parsed are cleared when they fall due.
func (g garbage) clearItem(space string, pair kv.Pair, prefix int) {
	g.tx.Clear(pair.Key)
	p, err := layout.ParsePlace(pair.Key[prefix:])
	if err != nil {
		return
	}
	l, err := layout.ParseItem(space, pair.Value, p)
	if err != nil {
		return
	}
	g.timersChanged(l, &nowhere)
}

// Make makes the queue if need be, and returns the generation at which it was made. Rows that end with the queue, and
// not with a purge, have it in their keys.
func (q Queue) Make(tx kv.Tx) (born int64, err error) {
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err == nil {
		err = qtx.keepBirth()
	}
	if err != nil {
		return 0, err
	}
	return qtx.state.born, nil
}
