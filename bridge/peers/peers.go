// Package peers is what bridges tell each other over NATS.
//
// Bridges that share a store take turns at queues that several of them pop
// ([Turns]). Bridges that must not serve side by side, because they use one
// prefix with different stores, find each other ([Rivals]): one that starts
// refuses to, and of two that meet while both serve one goes on standby
// ([Standby]).
//
// The queues are right whatever others say or fail to say: turns save work, and
// a rival that is not found costs the order that one store would keep, no item.
package peers

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Peers are the others, as one bridge sees them.
type Peers struct {
	Turns   *Turns
	Rivals  *Rivals
	Standby *Standby
}

// Options are what a bridge is to the others, and what it lets them change.
type Options struct {
	Self      Identity
	Store     Store
	StoreName string // for people
	Service   Service
	Logger    *slog.Logger
}

// Store is what bridges on one store know alike.
type Store struct {
	Secret []byte               // known to nobody else
	Time   func() time.Duration // grows, and differs by some seconds at most
}

// New returns the peers of the bridge on a connection. Nothing is sent or
// received yet.
func New(nc *nats.Conn, o Options) *Peers {
	rivals := NewRivals(nc, o.Self, o.StoreName, o.Logger)
	return &Peers{
		Turns:   NewTurns(nc, o.Self, o.Store, o.Logger),
		Rivals:  rivals,
		Standby: NewStandby(rivals, o.Service, o.Logger),
	}
}
