package fdbpq

import "time"

// Popped is the result of a pop or a peek.
type Popped struct {
	Items []Item

	// Leased is for how long the items were leased, 0 if they were popped for good.
	Leased time.Duration

	// Ready is the queue's counter of ready items after a pop that found some, or of ReasonBand.
	Ready int64

	// Reason says why there are no items. It compares the queue's counters of all
	// priorities as they were when the transaction began; ReasonBand looks into the band.
	Reason Reason

	// Repeated: an earlier pop with this id has popped the items.
	Repeated bool

	// Retry is the time until a rate allows a pop to find an item, even if no item arrives meanwhile. 0: it cannot.
	Retry time.Duration

	// Final: the store remembers that the pop with this id got no item, and so it never gets one.
	Final bool

	// Events report items past their TTL that the pop removed.
	Events []Event

	// More: the transaction removed as many items past their TTL as it may, and found
	// no others so far. Commit and pop again.
	More bool
}

// Reason says why a pop or a peek found no items.
type Reason string

const (
	ReasonUnknown Reason = "unknown" // no such queue
	ReasonPaused  Reason = "paused"
	ReasonRate    Reason = "rate"    // the queue's rate allows no delivery now
	ReasonBlocked Reason = "blocked" // ready items wait for other items of their key, or for its rate, or it is paused
	ReasonBand    Reason = "band"    // items are ready, and all of them outside the band
	ReasonLeased  Reason = "leased"  // there are only leased items, and perhaps delayed ones
	ReasonDelayed Reason = "delayed" // there are only delayed items
	ReasonEmpty   Reason = "empty"   // there are no items
)

func deref(t *Popped) Popped {
	if t == nil {
		return Popped{}
	}
	return *t
}
