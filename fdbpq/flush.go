package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// In runs fn, whose operations on queues of the Work belong together, and then writes what
// they have changed together. No other handle of these queues is used in the transaction
// before In returns. An error fails the transaction.
func (s *Store) In(tx kv.Tx, fn func(*Work) error) error {
	w := s.work(tx)
	w.joint = true
	if err := fn(w); err != nil {
		return err
	}
	return w.flush()
}

// done ends an operation.
func (qtx *queueTx) done() error {
	if qtx.work.joint {
		return nil
	}
	return qtx.work.flush()
}

func (w *Work) flush() error {
	for _, qtx := range w.queues {
		if err := qtx.flush(); err != nil {
			return err
		}
	}
	return nil
}

// flush writes what operations have changed together: it has pops find the keys that
// changed, and adds to the counters.
func (qtx *queueTx) flush() error {
	if err := (keyIndex{&qtx.queueRows}).flush(); err != nil {
		return err
	}
	for counter, delta := range qtx.tally.Fields() {
		if *delta != 0 {
			qtx.tx.Add(layout.CounterKey(qtx.name, qtx.state.generation, counter), *delta)
		}
	}
	if qtx.arrived {
		qtx.tx.Add(layout.QueueRow(layout.SpaceArrivals, qtx.name), 1)
	}
	qtx.tally, qtx.stored, qtx.arrived = layout.Tally{}, nil, false
	if qtx.assigned.counts {
		qtx.tx.Max(layout.QueueRow(layout.SpaceHigh, qtx.name), uint64(qtx.assigned.count))
		qtx.assigned.counts = false
	}
	return nil
}

// Freed reports whether items of a queue have become ready, or free to go, since it was asked
// before: a pop of the Work that found nothing may find something now.
func (w *Work) Freed(queue string) (bool, error) {
	qtx, err := w.queue(queue)
	if err == nil {
		err = keyIndex{&qtx.queueRows}.flush()
	}
	if err != nil {
		return false, err
	}
	freed := qtx.freed
	qtx.freed = false
	return freed, nil
}
