package fdbpq

import (
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
	qtx, err := q.administerIt(tx)
	if err != nil {
		return 0, err
	}
	return supersede(qtx, func(*queueState) {})
}

// Delete removes the queue with its items, its configuration and its remembered
// message ids. A later queue of the same name inherits nothing but that repeated pops
// pop no items of it.
func (q Queue) Delete(tx kv.Tx) (int64, error) {
	qtx, err := q.administerIt(tx)
	if err != nil {
		return 0, err
	}
	return deleteQueue(qtx)
}

// deleteQueue is Delete. What was changed together before is written.
func deleteQueue(qtx *queueTx) (int64, error) {
	pops, err := outlivingPops(qtx.tx, qtx.name)
	if err != nil {
		return 0, err
	}
	if qtx.disuse.expires() {
		if err := qtx.disuse.end(); err != nil {
			return 0, err
		}
	}
	n, err := supersede(qtx, func(s *queueState) {
		*s = queueState{generation: s.generation, config: defaultConfig()}
	})
	if err != nil {
		return 0, err
	}
	for _, kind := range layout.RowKinds {
		if kind.Lasts == layout.UntilDelete {
			qtx.tx.ClearRange(layout.AllRows(kind.Space, qtx.name))
		}
	}
	for _, counter := range layout.OfQueue {
		qtx.tx.Clear(layout.CounterKey(qtx.name, 0, counter))
	}
	pops.keep(qtx.tx, qtx.name)
	return n, nil
}

// supersede begins the next generation, in another state.
func supersede(qtx *queueTx, alter func(*queueState)) (int64, error) {
	s := qtx.state
	n, err := countsOf(qtx.name, qtx.front(s), s.generation)
	if err != nil {
		return 0, err
	}
	next := *s
	next.generation++
	alter(&next)
	qtx.tx.Set(tuple.AppendInt(layout.QueueRow(layout.SpaceGarbage, qtx.name), s.generation), nil)
	if s.results {
		qtx.results.tell()
	}
	qtx.assigned = assigned{}
	return n.Length(), qtx.writeState(&next)
}

// Make makes the queue if need be, and returns the generation at which it was made. Rows that end with the queue, and
// not with a purge, have it in their keys.
func (q Queue) Make(tx kv.Tx) (born int64, err error) {
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err != nil {
		return 0, err
	}
	return qtx.state.born, nil
}
