// Package recipe pops in the ways of FoundationDB's priority-queue recipe. It is for programs that
// use queues as a library, and stands on what fdbpq offers everybody. pqd does not use it: its
// bridges coordinate over NATS.
package recipe

import (
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Pops are the pops of one process from the queues of a store.
type Pops struct {
	store *fdbpq.Store
	lines lines
}

// New returns the pops from the queues of a store. Those that wait for each other share it.
func New(store *fdbpq.Store) *Pops { return &Pops{store: store} }

// Plain is Pop as the recipe documents it: it reads the head serializably, so it
// conflicts with every other pop and every push at its end of the queue. It is a
// reference for measurements.
func Plain(q fdbpq.Queue, tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) {
	return q.Pop(serializable{tx}, sel)
}

// serializable is a transaction whose commit depends on all that it reads.
type serializable struct{ kv.Tx }

func (tx serializable) Snapshot() kv.Reader { return tx.Tx }
