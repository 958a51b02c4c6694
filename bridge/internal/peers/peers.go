// Package peers is the communication of bridges with each other over NATS.
//
// Bridges that share a store let one of them pop a queue that several of them are asked to pop ([Owners]). Bridges
// that use one prefix with different stores must not serve side by side. They find each other ([Rivals]): a bridge
// does not start beside a rival, and when two rivals meet later, one of them goes on standby ([Standby]). A rival
// is a bridge that can reach the clients of this bridge under its prefix. A bridge behind a leaf node that keeps
// the prefix to itself is no rival.
//
// A bridge of a site with a name also serves the prefix that other sites use. There it may have other rivals:
// another site with the same name. Such a rival never keeps a bridge from serving its own site.
//
// The queues are correct whatever messages arrive or get lost. Owners only save work. A rival that is not found
// costs the order that one store would keep, but no item.
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
	Remote  *Standby // of the prefix that other sites use; nil: the site has no name

	remote *Rivals
}

// Start looks for rivals until Stop.
func (p *Peers) Start() {
	p.Standby.Start()
	if p.Remote != nil {
		p.Remote.Start()
	}
}

// Stop ends the search for rivals. A front on standby stays there.
func (p *Peers) Stop() {
	p.Standby.Stop()
	if p.Remote != nil {
		p.Remote.Stop()
	}
}

// Prove makes the bridge prove itself, if a question of service discovery asks for that.
func (p *Peers) Prove(question *nats.Msg) {
	p.Rivals.Prove(question)
	if p.remote != nil {
		p.remote.Prove(question)
	}
}

// Options describe a bridge to its peers.
type Options struct {
	Self      Identity
	Store     Store
	StoreName string // for people
	Service   Service
	Remote    Service // of the prefix that other sites use
	Logger    *slog.Logger

	Requests Handlers // for requests that are passed on
}

// Store has the data that all bridges on one store share.
type Store struct {
	Secret []byte               // known only to them
	Time   func() time.Duration // grows, and differs by some seconds at most
}

// New returns the peers of the bridge on a connection. Nothing is sent or
// received yet.
func New(nc *nats.Conn, o Options) *Peers {
	rivals := NewRivals(nc, o.Self, o.StoreName, o.Logger)
	p := &Peers{
		Owners:  NewOwners(nc, o.Self, o.Store, o.Logger, o.Requests),
		Rivals:  rivals,
		Standby: NewStandby(rivals, o.Service, o.Logger),
	}
	if o.Self.Site != "" {
		p.remote = NewRivals(nc, o.Self.Remote(), o.StoreName, o.Logger)
		p.Remote = NewStandby(p.remote, o.Remote, o.Logger)
	}
	return p
}
