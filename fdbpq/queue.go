package fdbpq

import (
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Queue is one queue of a store. Its methods work inside a transaction of the caller
// and take effect when it commits.
type Queue struct {
	store *Store
	name  string
	cache *txCache
	full  error // why no new items are added; nil: they are
}

// Full returns a handle with which pushes and imports add no new items: they are refused for
// the reason. One that is repeated still finds its item, and one whose content takes the
// place of no less, of an item that it hands over or replaces, is accepted.
func (q Queue) Full(reason error) Queue {
	q.full = reason
	return q
}

// Queue returns a handle for the queue with this name, which need not exist.
func (s *Store) Queue(name string) Queue {
	return Queue{store: s, name: name}
}

// Name returns the queue's name.
func (q Queue) Name() string { return q.name }

// In returns a handle for many operations on the queue within one transaction. It
// reads the queue's state and store time once. No other handle may change the
// queue's configuration, pause, purge or delete it in the same transaction.
func (q Queue) In(tx kv.Tx) Queue {
	q.cache = &txCache{tx: tx}
	return q
}

// txCache keeps what a transaction has read about a queue.
type txCache struct {
	tx        kv.Tx
	state     *queueState
	read      bool
	storeTime int64

	buffers buffers
}
