package link

import "github.com/pqbridge/pqbridge/fdbpq"

// Links are the links of a store. Its methods may be called from any number of goroutines. They work inside a transaction of
// the caller, as the methods of the queue do.
type Links struct{ store *fdbpq.Store }

// New returns the links of a store. They have no state but that of the store, so a process may have them several times.
func New(store *fdbpq.Store) *Links { return &Links{store} }
