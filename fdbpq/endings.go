package fdbpq

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
)

// Outcome is how a lease ended.
type Outcome string

const (
	OutcomeNack       Outcome = "nak"        // its holder failed
	OutcomeExpired    Outcome = "expired"    // it ran out
	OutcomeBack       Outcome = "back"       // its holder gave the item back, with nothing wrong with it
	OutcomeRevoked    Outcome = "revoked"    // it was taken away
	OutcomeTerminated Outcome = "terminated" // its holder gave the item up

	outcomeUnreceived Outcome = "" // no consumer received the item: no attempt
)

var outcomes = []Outcome{OutcomeNack, OutcomeExpired, OutcomeBack, OutcomeRevoked, OutcomeTerminated}

// Endings say how earlier leases of an item ended. It dies of failures and of interruptions.
type Endings struct {
	Failures      int64 // its holder said so, by Nack
	Interruptions int64 // it ran out
	Returns       int64 // it was given back with nothing wrong with the item, or taken away
}

// endingsOf says how the leases of the item ended.
func endingsOf(l *layout.Item) Endings {
	failures := l.Tries
	if l.State == layout.StateLeased && !l.Over {
		failures--
	}
	return Endings{failures, l.Interruptions, l.Returns}
}

// MaxReturns bounds how many leases of an item end without counting against it: leases that are handed back, revoked, or
// received by no consumer. Each further lease that is handed back or not received is an interruption, since a consumer may
// do that for ever, and can forge reports.
const MaxReturns = 1000

// countEnding counts a lease that ends, and reports whether that was an interruption.
func countEnding(l *layout.Item, how Outcome) (interrupted bool) {
	l.Over = true
	if how == OutcomeNack {
		return false
	}
	l.Tries--
	switch {
	case how == OutcomeExpired, how != OutcomeRevoked && l.Returns+l.Unreceived >= MaxReturns:
		l.Interruptions++
		return true
	case how == outcomeUnreceived:
		l.Unreceived++
	default:
		l.Returns++
	}
	return false
}

// ending is how a lease ends without success.
type ending struct {
	outcome Outcome
	reason  string
	delay   *time.Duration // that the holder or the revocation named; otherwise the backoff says it
	unused  bool           // no consumer has begun with the item
	fence   int64          // of a lease that is revoked
	at      int64          // store time, which end sets
}

// fate is what becomes of an item whose lease has ended.
type fate struct {
	due  int64  // store time from which on it is ready; 0: at once
	dead string // why it dies, if it can; "": it does not
}

// Finish is how an item ended.
type Finish string

const (
	FinishDone       Finish = "done"        // it was acknowledged, or popped for good
	FinishDead       Finish = "dead"        // it became a dead letter
	FinishHandedOver Finish = "handed_over" // a push acknowledged it, or a link took it to another store
	FinishExpired    Finish = "expired"
	FinishRemoved    Finish = "removed"
	FinishCancelled  Finish = "cancelled"
	FinishEvicted    Finish = "evicted"
)

// finish is how an item ends, and where it goes on.
type finish struct {
	how    Finish
	body   []byte // the result of its work
	reason string // why it is dead, or cancelled
	next   string // its next queue, or the link that takes it
	nextID ID     // in that queue
	popped bool   // for good, without a lease
}

// Kept says what became of the result of an item.
type Kept string

const (
	KeptNone    Kept = "none"    // nobody has asked for it
	KeptWhole   Kept = "kept"    // the queue keeps it
	KeptDropped Kept = "dropped" // the queue keeps how the item ended: there was no room for the result
)

// Event is a change of an item that no consumer asked for. It takes effect when the
// transaction that reports it commits.
type Event struct {
	Type       EventType
	Queue      string
	ID         ID
	Priority   int64
	Deliveries int64
	Endings           // of EventDead, EventLeaseLost and EventRevoked: with the lease that has ended
	Reason     string // of EventDead, EventRevoked and EventCancelled: why
	Cause      string // of EventDead: what the item failed of last
	DeadLetter string // of EventDead: queue that the item went to; "" when it was dropped
	Holder     string // of EventLeaseLost, EventRevoked, EventRemoved and EventCancelled: what the holder of the lease that has ended called itself
	Fence      int64  // of the lease that EventRevoked, EventRemoved or EventCancelled has ended; 0: none has
	NotBefore  int64  // of EventLeaseLost and EventRevoked: store time from which on the item is ready; 0: it is, or it has left the queue
}

// EventType says what happened to the item.
type EventType string

const (
	EventDead      EventType = "dead"       // the item became a dead letter, or was dropped as one
	EventExpired   EventType = "expired"    // the item outlived its TTL
	EventLeaseLost EventType = "lease_lost" // a lease ran out
	EventRevoked   EventType = "revoked"    // a lease was taken away
	EventEvicted   EventType = "evicted"    // the queue was full and this was its least urgent item
	EventCancelled EventType = "cancelled"  // the item was cancelled
	EventRemoved   EventType = "removed"    // the item was removed while somebody held its lease
	EventFinished  EventType = "finished"   // the queue keeps what became of the item, see [Queue.Result]. Drop does not report it
)
