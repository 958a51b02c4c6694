package protocol

// Finish is how an item ended: the value of HeaderOutcome.
type Finish string

const (
	FinishDone       Finish = "done"        // it was acknowledged, or popped for good
	FinishDead       Finish = "dead"        // it is a dead letter
	FinishHandedOver Finish = "handed_over" // a push acknowledged it, or a link took it to another store
	FinishExpired    Finish = "expired"
	FinishRemoved    Finish = "removed"
	FinishEvicted    Finish = "evicted"
)

// Values of HeaderResult: what became of what a holder said.
const (
	ResultKept    = "kept"
	ResultNone    = "none"    // nobody asked for it
	ResultDropped = "dropped" // there was no room for it
)
