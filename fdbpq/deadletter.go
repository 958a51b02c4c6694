package fdbpq

import (
	"cmp"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// Why an item became a dead letter, unless Terminate gave another reason.
const (
	DeadMaxDeliveries = "max_deliveries"
	DeadInterruptions = "interruptions"
	DeadExpired       = "expired"
	DeadTerminated    = "terminated"
)

// DeadLetter says which queue a dead letter came from, by its own name, why and when.
type DeadLetter struct {
	Reason, Origin, OriginID string

	At         time.Time // by the wall clock of the process that buried it; zero: not known
	Deliveries int64     // that it had in its queue

	Interruptions int64 // that it had there
}

// cause is what an item failed of: the reason of its last attempt. A dead letter that did not die
// of an attempt has that of its death, and so has one whose last attempt gave none.
func (d DeadLetter) cause(attempts Attempts) string {
	if d.Reason != "" && d.Reason != DeadMaxDeliveries && d.Reason != DeadInterruptions {
		return d.Reason
	}
	return cmp.Or(attempts.reason(), d.Reason)
}

// shownDead is how the item died, nil if it is no dead letter.
func shownDead(e *layout.Envelope) *DeadLetter {
	if !e.IsDead() {
		return nil
	}
	return (*DeadLetter)(&e.Dead)
}
