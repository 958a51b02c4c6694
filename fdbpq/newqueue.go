package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// stageNew has a queue that does not exist be a new one, which its first item makes.
func (qtx *queueTx) stageNew() error {
	if qtx.state.exists {
		return nil
	}
	if err := qtx.mayBeMade(); err != nil {
		return err
	}
	begin := &queueState{exists: true, config: defaultConfig()}
	if begin.generation = qtx.state.generation; begin.generation == 0 { // otherwise Delete has incremented it
		gone, err := qtx.tx.Get(layout.Row(layout.SpaceGone))
		if err != nil {
			return err
		}
		begin.generation = int64(kv.DecodeInteger(gone)) + 1
	}
	qtx.state, qtx.missing = begin, true
	return nil
}

// mayBeMade returns why the queue is not made, nil if it is.
func (qtx *queueTx) mayBeMade() error {
	if qtx.making == nil {
		return nil
	}
	if with := CountsWith(qtx.name); with != "" {
		if other, err := qtx.work.queue(with); err != nil || other.there() {
			return err
		}
	}
	return qtx.making()
}

// create makes a queue that is missing, in a state.
func (qtx *queueTx) create(s *queueState) error {
	qtx.missing = false
	if s.generation > 1 {
		// Watches of an earlier queue of this name see a value that they have not seen.
		qtx.tx.Add(layout.QueueRow(layout.SpaceArrivals, qtx.name), s.generation<<32)
	}
	return qtx.writeState(s)
}

// orCreate makes the queue if need be.
func (qtx *queueTx) orCreate() error {
	if err := qtx.stageNew(); err != nil || !qtx.missing {
		return err
	}
	return qtx.create(qtx.state)
}

func (q *queueRows) writeState(s *queueState) error {
	raw, err := s.pack()
	if err != nil {
		return err
	}
	q.tx.Set(layout.QueueRow(layout.SpaceState, q.name), raw)
	q.state = s
	return nil
}

// keepBirth has the queue's state keep the generation at which it was made. Rows that outlive a
// purge, and end with a delete, have it in their keys.
func (qtx *queueTx) keepBirth() error {
	if qtx.state.born != 0 {
		return nil
	}
	changed := *qtx.state
	changed.born = changed.generation
	return qtx.writeState(&changed)
}
