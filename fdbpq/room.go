package fdbpq

import (
	"errors"
	"fmt"
	"sync/atomic"
)

// A store without room takes no new items, which is its caller's to see to (see [Queue.Full]). All else goes on, so that
// the store empties, and does not make the store grow: an item remembers no further attempts and no further reasons,
// and new message and pop ids take spareBytes at most. A death writes the content of the item again, into the dead-letter queue,
// and what it had before becomes free later: where there is no room for that, the item waits in its queue, dead.
//
// What an item has in its own row is written again with each lease and at the end of each, so many items that go back at once take
// room, too. What is left at last is for what writes no item again: acknowledgements, pops for good, removes, purges and deletions.

// ErrNoRoom: the store has no room to grow.
var ErrNoRoom = errors.New("the store is full")

// spareBytes bounds what ids take that a store remembers while it has no room. Pushes and pops that clients repeat need
// them.
const spareBytes = 4 << 20

// room is whether the store may grow.
type room struct {
	why   func(bytes int64) error // Options.Full
	low   func() error            // Options.Low
	most  int64                   // spareBytes
	spare atomic.Int64            // bytes that ids have taken since the store has no room

	owners atomic.Pointer[func(queue string) bool] // see Store.Crowded
}

// crowded reports whether the owner of a queue has as many bytes as it may have.
func (r *room) crowded(queue string) bool {
	owner := r.owners.Load()
	return owner != nil && (*owner)(queue)
}

// full is the reason why the store may not grow, nil while it may.
func (r *room) full() error {
	if r.why == nil {
		return nil
	}
	why := r.why(0)
	if why == nil {
		if r.spare.Load() != 0 {
			r.spare.Store(0)
		}
		return nil
	}
	return fmt.Errorf("%w: %w", ErrNoRoom, why)
}

// take counts bytes that a transaction writes again, and reports whether there is room for them. A transaction that runs again counts
// again.
func (r *room) take(bytes int64) bool { return r.why == nil || r.why(bytes) == nil }

// goesBack is the reason why no item may be written again, nil while one may.
func (r *room) goesBack() error {
	if r.low == nil {
		return nil
	}
	if why := r.low(); why != nil {
		return fmt.Errorf("%w: %w", ErrNoRoom, why)
	}
	return nil
}

// shortage is how little room the store has.
func (r *room) shortage() shortage {
	switch {
	case r.goesBack() != nil:
		return noWayBack
	case r.full() != nil:
		return noBurials
	}
	return roomy
}

// shortage is what a store without room puts off.
type shortage int

const (
	roomy     shortage = iota
	noBurials          // dead items wait
	noWayBack          // and so do leases that have run out, and delays that are over
)

// ids is the reason why the store may not remember an id, nil while it may. A transaction that runs again counts again.
func (r *room) ids(id string) error {
	why := r.full()
	if why != nil && r.spare.Add(idRows(id)) <= r.most {
		return nil
	}
	return why
}

// idRows is about what the rows of an id take: the id is part of three at most.
func idRows(id string) int64 { return 3 * (128 + int64(len(id))) }
