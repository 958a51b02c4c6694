// Package peers is the communication of bridges with each other over NATS.
//
// Bridges that share a store have one of them pop a queue that several of them are asked
// to pop ([Owners]). Bridges that use one prefix with different stores must not serve side by
// side. They find each other ([Rivals]): a bridge does not start beside a rival, and
// when two rivals meet later, one of them goes on standby ([Standby]).
//
// The queues are correct whatever messages arrive or get lost. Owners only save work. A
// rival that is not found costs the order that one store would keep, but no item.
package peers

import (
	"log/slog"
	"time"

	"github.com/nats-io/nats.go"
)

// Peers are the other bridges.
type Peers struct {
	Owners  *Owners
	Rivals  *Rivals
	Standby *Standby
}

// Options describe a bridge to its peers.
type Options struct {
	Self      Identity
	Store     Store
	StoreName string // for people
	Service   Service
	Logger    *slog.Logger

	Requests Handlers // of those that are passed on
}

// Store is what all bridges on one store have in common.
type Store struct {
	Secret []byte               // known only to them
	Time   func() time.Duration // grows, and differs by some seconds at most
}

// New returns the peers of the bridge on a connection. Nothing is sent or
// received yet.
func New(nc *nats.Conn, o Options) *Peers {
	rivals := NewRivals(nc, o.Self, o.StoreName, o.Logger)
	return &Peers{
		Owners:  NewOwners(nc, o.Self, o.Store, o.Logger, o.Requests),
		Rivals:  rivals,
		Standby: NewStandby(rivals, o.Service, o.Logger),
	}
}
