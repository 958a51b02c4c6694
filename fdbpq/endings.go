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
	at      int64          // store time, which end sets
}

// fate is what becomes of an item whose lease has ended.
type fate struct {
	due  int64  // store time from which on it is ready; 0: at once
	dead string // why it dies, if it can; "": it does not
}
