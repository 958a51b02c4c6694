package fdbpq

// Finish is how an item ended.
type Finish string

const (
	FinishDone       Finish = "done"        // it was acknowledged, or popped for good
	FinishDead       Finish = "dead"        // it became a dead letter
	FinishHandedOver Finish = "handed_over" // a push acknowledged it, or a link took it to another store
	FinishExpired    Finish = "expired"
	FinishRemoved    Finish = "removed"
	FinishEvicted    Finish = "evicted"
)

// finish is how an item ends, and where it goes on.
type finish struct {
	how    Finish
	body   []byte // the result of its work
	reason string // why it is dead
	next   string // its next queue, or the link that takes it
	nextID ID     // in that queue
}

// Kept says what became of the result of an item.
type Kept string

const (
	KeptNone    Kept = "none"    // nobody has asked for it
	KeptWhole   Kept = "kept"    // the queue keeps it
	KeptDropped Kept = "dropped" // the queue keeps how the item ended: there was no room for the result
)
