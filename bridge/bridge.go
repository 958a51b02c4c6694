// Package bridge is the NATS service in front of the queue core: it takes
// requests on the subjects of docs/protocol.md, runs them in batches, one
// transaction each, and answers.
//
// What it guarantees: every request with a reply subject is answered once,
// overload and shutdown included; a push is acknowledged when it is durable;
// what arrives on one connection for one queue takes effect in the order in
// which it arrived, pushes among themselves and pops among themselves; and
// nothing it holds (requests, bytes, waiters) grows without a limit.
//
// The table in verb.go says what is answered. A message that parses becomes a
// [work] of its verb, which reads it and goes to a lane; the lane runs it with
// others in one transaction; the responder answers it and ends it.
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
	"github.com/pqbridge/pqbridge/bridge/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// Options are the choices of whoever starts a bridge. The zero value is right
// for most.
type Options struct {
	Prefix    string // of all subjects; "": pq
	Version   string // of the program, for discovery; a semantic version
	StoreName string // what _sys.info calls the store
	Exclusive bool   // nobody else can open the store: do not serve beside a bridge that has another one, settle along with pops
	Logger    *slog.Logger

	// ReplySubjects are patterns of subjects that are answered, beside _INBOX.>
	// and _R_.>. Clients choose the reply subjects of their requests, and what
	// they are answered there may be of their choice, too.
	ReplySubjects []string

	Tracer trace.Tracer // nil: no spans
	Limits Limits

	// Damage returns what is known to be damaged of the store's files, in words.
	// nil: nothing ever is.
	Damage func() []string
}

// DefaultPrefix is the first token of all subjects unless told otherwise.
const DefaultPrefix = "pq"

// queueGroup is shared by all bridges under a prefix: one of them gets each
// request. It is the same for every subscription, because the server then
// delivers a message to one of all those that match.
const queueGroup = "pq"

// Bridge serves the queues of a store on one NATS connection.
type Bridge struct {
	*responder
	nc       *nats.Conn
	store    *fdbpq.Store
	options  Options
	grammar  subjects.Grammar
	sealer   sealer
	room     room
	replies  replies
	lanes    lanes
	waiting  *waiting.Pops[*pop]
	peers    *peers.Peers
	presence presence
	turns    turns
	service  service
	keeper   *keeper
	arrivals arrivals
	intake   intake
	subs     subscriptions
	drained  drained
}

// subscriptions are what a bridge listens to besides discovery.
type subscriptions struct {
	requests *nats.Subscription // everything, in the order it arrives
	acks     *nats.Subscription // settlements, which are taken for longer
	signals  *nats.Subscription // the server's word that nobody received an item
}

// Start serves the store's queues on the connection until Drain. Neither is
// taken over: closing them is the caller's, in this order after Drain.
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
	b.peers = peers.New(nc, peers.Options{
		Self: self, StoreName: o.StoreName, Logger: o.Logger,
		Store:   peers.Store{Secret: store.Secret(), Time: store.Time},
		Service: peers.Service{Pause: b.enterStandby, Resume: b.leaveStandby},
	})
	b.presence.init(nc, o.Logger)
	b.lineUp()
	b.turns.init(func(s *settlement) { s.start(b) })
	b.intake.init()
	if err := b.service.start(ctx, b, self); err != nil {
		return nil, err
	}
	b.room.init(nc, o.Prefix) // the server has said by now what it allows
	b.arrivals.start(b.receiveNext, o.Logger)
	err = b.subscribe()
	if err == nil {
		// The server has said by now what it does not permit.
		if last := nc.LastError(); errors.Is(last, nats.ErrPermissionViolation) {
			err = fmt.Errorf("subscribe: %w", last)
		}
	}
	if err != nil {
		b.unsubscribe()
		b.lanes.stop()
		return nil, err
	}
	b.keeper.start(store, b.events.item)
	b.peers.Standby.Start()
	return b, nil
}

// pendingBytes bounds what has come and was not looked at; what is beyond is
// dropped. Looking at messages never blocks: what is too much is refused, and when
// even that is too much the bridge rests, so it does not come to it.
const pendingBytes = 256 << 20

// subscribe makes the subscriptions that are missing.
func (b *Bridge) subscribe() (err error) {
	add := func(to **nats.Subscription, subject string, subscribe func() (*nats.Subscription, error)) {
		if err != nil || *to != nil {
			return
		}
		if *to, err = subscribe(); err != nil {
			err = fmt.Errorf("subscribe to %s: %w", subject, err)
		}
	}
	share := func(to **nats.Subscription, subject string) {
		add(to, subject, func() (*nats.Subscription, error) {
			return b.nc.ChanQueueSubscribe(subject, queueGroup, b.arrivals.came)
		})
	}
	signals := b.grammar.AcksOf(b.sealer.conn)
	// An item must not be handed out before signals are heard, and signals not be
	// heard while nobody settles: their subscription matches settlements too.
	share(&b.subs.acks, b.grammar.Acks())
	add(&b.subs.signals, signals, func() (*nats.Subscription, error) {
		sub, err := b.nc.Subscribe(signals, b.signal)
		if err == nil {
			err = sub.SetPendingLimits(-1, pendingBytes)
		}
		return sub, err
	})
	share(&b.subs.requests, b.grammar.All())
	if err != nil {
		return err
	}
	if err := b.nc.Flush(); err != nil {
		return fmt.Errorf("subscribe: %w", err)
	}
	return nil
}

func (b *Bridge) unsubscribe() {
	b.service.stop()
	b.silence(&b.subs.requests, &b.subs.acks, &b.subs.signals)
	b.arrivals.stop()
}

// silence ends subscriptions at once.
func (b *Bridge) silence(subs ...**nats.Subscription) {
	for _, s := range subs {
		sub := *s
		if sub == nil {
			continue
		}
		*s = nil
		// One that was drained has ended by itself.
		if err := sub.Unsubscribe(); err != nil && !errors.Is(err, nats.ErrBadSubscription) {
			b.options.Logger.Warn("unsubscribing failed", "subject", sub.Subject, "error", err)
		}
	}
}

// Ready returns nil while the bridge serves: its connection is up, the store
// commits, and it is not on standby for another bridge.
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
