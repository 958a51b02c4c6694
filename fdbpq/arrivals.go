package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Arrivals returns a watch that fires when an item of the queue becomes ready.
// Created in the transaction that found no item, it misses none.
func (q Queue) Arrivals(tx kv.Tx) *kv.Watch {
	return tx.Watch(queueRow(spaceArrivals, q.name))
}
