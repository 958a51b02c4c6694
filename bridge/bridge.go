// Package bridge is the NATS service in front of the queue core. It receives
// requests on the subjects of docs/protocol.md, runs them in batches, one
// transaction each, and answers them.
//
// What it guarantees: every request with a reply subject is answered once,
// overload and shutdown included. A push is acknowledged when it is durable. The
// pushes that one connection sends to one queue take effect in the order in which
// they arrive, and so do its pops. Nothing that the bridge holds (requests, bytes,
// waiting pops) grows without a limit.
//
// The table in verb.go lists the verbs. A message that parses becomes the [work] of
// its verb. The work reads the message and goes to a lane; the lane runs it with
// others in one transaction; the responder answers the request and ends it.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/bridge/receiver"
	"github.com/pqbridge/pqbridge/bridge/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// Options configure a bridge. The zero value suits most programs.
type Options struct {
	Prefix    string // of all subjects; "": pq
	Version   string // of the program, for discovery; a semantic version
	StoreName string // what _sys.info calls the store
	Exclusive bool   // only this process can open the store: go on standby beside a bridge with another store, settle in the transactions of pops
	Logger    *slog.Logger

	// ReplySubjects are patterns of reply subjects that are answered besides
	// _INBOX.> and _R_.>. A client chooses the reply subject of its request, and may
	// have chosen the content of the answer, too.
	ReplySubjects []string

	Tracer trace.Tracer // nil: no spans
	Limits Limits

	// Damage describes the damage known in the store's files. nil: none is ever known.
	Damage func() []string
}

// DefaultPrefix begins all subjects when Options.Prefix is empty.
const DefaultPrefix = "pq"

// queueGroup is shared by all bridges under a prefix, so one of them gets each
// request. All subscriptions use it, because the server then delivers a message to
// only one of the subscriptions that match.
const queueGroup = "pq"

// Bridge serves the queues of a store on one NATS connection.
type Bridge struct {
	*responder
	nc          *nats.Conn
	store       *fdbpq.Store
	options     Options
	grammar     subjects.Grammar
	sealer      sealer
	answerLimit answerLimit
	replies     replies
	lanes       lanes
	waiting     *waiting.Pops[*pop]
	peers       *peers.Peers
	interest    replyInterest
	order       settlementOrder
	service     service
	keeper      *keeper
	receiver    *receiver.Receiver
	drained     drained
}

// Start serves the store's queues on the connection until Drain. The caller closes
// the connection after Drain, and then the store.
func Start(ctx context.Context, nc *nats.Conn, store *fdbpq.Store, o Options) (*Bridge, error) {
	if o.Prefix == "" {
		o.Prefix = DefaultPrefix
	}
	if o.Version == "" {
		o.Version = "0.0.0"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Damage == nil {
		o.Damage = func() []string { return nil }
	}
	o.Limits = o.Limits.withDefaults()
	grammar, err := subjects.New(o.Prefix)
	if err != nil {
		return nil, err
	}
	b := &Bridge{nc: nc, store: store, options: o, grammar: grammar}
	b.keeper = newKeeper(o.Logger)
	stats := newStatistics()
	b.responder = &responder{
		nc: nc, log: o.Logger, tracer: o.Tracer, stats: stats, gate: newGate(o.Limits),
		events: newAnnouncer(nc, grammar, o.Logger, stats),
	}
	if err := b.replies.init(o, store.ID()); err != nil {
		return nil, err
	}
	b.sealer.init(store.Secret())
	b.lanes.init(b)
	self := peers.Identity{ID: nuid.Next(), Prefix: o.Prefix, StoreID: store.ID()}
	if o.Exclusive {
		self.Started = time.Now()
	}
	b.interest.init(nc, o.Logger)
	b.initWaiting()
	b.order.init(func(s *settlement) { s.start(b) })
	b.receiver = receiver.New(nc, receiver.Options{
		Subjects: receiver.Subjects{
			Requests: grammar.All(), Settlements: grammar.Acks(), Signals: grammar.AcksOf(b.sealer.conn), Pushes: grammar.Pushes(),
		},
		Handlers: receiver.Handlers{Request: b.receive, Signal: b.signal, Refuse: b.refusePush},
		Group:    queueGroup,
		Logger:   o.Logger,
	})
	standby := standby{b.receiver, b.waiting}
	b.peers = peers.New(nc, peers.Options{
		Self: self, StoreName: o.StoreName, Logger: o.Logger,
		Store:   peers.Store{Secret: store.Secret(), Time: store.Time},
		Service: peers.Service{Pause: standby.enter, Resume: standby.leave},
	})
	if err := b.service.start(ctx, b, self); err != nil {
		return nil, err
	}
	b.answerLimit.init(nc, o.Prefix) // the server has said by now what it allows
	if err := b.receiver.Start(); err != nil {
		b.service.stop()
		b.lanes.stop()
		return nil, err
	}
	b.keeper.start(store, b.events.item)
	b.peers.Standby.Start()
	return b, nil
}

// Ready returns nil while the bridge serves: its connection is up, its store
// commits, and it is not on standby.
func (b *Bridge) Ready() error {
	if b.gate.closed() {
		return errors.New("shutting down")
	}
	if status := b.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("NATS connection is %s", strings.ToLower(status.String()))
	}
	if reason := b.peers.Standby.Reason(); reason != nil {
		return reason
	}
	return b.keeper.ready()
}
