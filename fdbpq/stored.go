package fdbpq

import (
	"math"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// StoredItem is an item of a queue, in whatever state.
type StoredItem struct {
	Item
	State State
	Due   int64 // store time at which a lease or a delay ends; 0 when ready, or held
	Since int64 // of a leased item: store time when its lease began; 0: not known, or held
	Held  bool  // leased without an end, see Hold
	Fence int64 // number of leases, returned ones included

	KeyFence int64 // of the last lease, 0 if it had none

	// WaitsFor says why Get's item is not handed out, "" if its turn comes when those in
	// front of it are gone, or if it is leased.
	WaitsFor WaitsFor

	// KeyAhead is how many ready items of the key are handed out before Get's item, which is
	// ready, up to MaxKeyCount.
	KeyAhead int

	Holder   string // of a leased item: what its holder calls itself; "": nothing
	Attempts Attempts
	Cause    string // what it failed of last; "": nothing, or nobody said

	Unique            string // no other item of the queue has this value; "": it has none, or none any more
	UniqueUntilLeased bool   // the first lease ends that
}

// whole is more than the bytes of any payload.
const whole = math.MaxInt32

// stored returns an item with the first bytes of its payload.
func (c contents) stored(r kv.Reader, l *layout.Item, payload int64) (*StoredItem, error) {
	f := *l
	prefix := c.prefix(layout.SpaceChunk)
	var err error
	if payload < l.Size-l.HeaderSize {
		err = loadBeginning(r, prefix, &f.Envelope, f.Place, payload)
	} else {
		err = loadContent(r, prefix, &f.Envelope, f.Place)
	}
	if err != nil {
		return nil, err
	}
	item, err := itemOf(&f)
	if err != nil {
		return nil, err
	}
	attempts := Attempts(l.Attempts)
	stored := &StoredItem{
		Item: item, State: State(l.State), Due: l.Due, Held: l.Held(), Fence: l.Fence, KeyFence: l.KeyFence,
		Holder: l.Holder, Attempts: attempts, Cause: DeadLetter(l.Dead).cause(attempts),
	}
	if stored.Held {
		stored.Due = 0
	} else if l.State == layout.StateLeased {
		stored.Since = l.Since
	}
	stored.Unique, stored.UniqueUntilLeased = claimOf(&l.Envelope)
	return stored, nil
}
