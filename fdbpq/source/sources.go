package source

import (
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Sources are the sources of a store as one process has them. Its methods may be called from any number of
// goroutines, and work inside a transaction of the caller, as the methods of a queue do. Those of one
// source return ErrNone if there is none, and those that take a queue fdbpq.ErrNoQueue if there is no such queue.
type Sources struct{ store *fdbpq.Store }

// New returns the sources of a store. They have no state but that of the store, so a process may have them several times.
func New(store *fdbpq.Store) *Sources { return &Sources{store} }

// ErrNone: the queue has no source of this name.
var ErrNone = errors.New("no such source")

// homeOf is where the sources of a queue are. ErrNoQueue: there is no such queue.
func homeOf(r kv.Reader, q fdbpq.Queue) (home, error) {
	born, err := q.Born(r)
	return newHome(q.Name(), born), err
}
