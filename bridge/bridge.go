// Package bridge is the NATS service in front of the queue core. It receives requests on the subjects of
// docs/protocol.md, runs them in batches, one transaction each, and answers them.
//
// What it guarantees: every request with a reply subject is answered once, overload and shutdown included, except
// some requests of a tenant that floods the bridge. A push is acknowledged when it is durable. The pushes that one
// connection sends to one queue take effect in the order in which they arrive, and so do its pops. Everything that
// the bridge holds (requests, bytes, waiting pops) is bounded.
//
// The table in verb.go lists the verbs. A message that parses becomes the [desk.Work] of its verb. The work reads
// the message; its kind says which turns or pool it enters (workers.go); a turn runs it with others in one transaction; the responder answers
// the request and ends it.
package bridge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/receiver"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/survey"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// Bridge serves the queues of a store on one NATS connection.
type Bridge struct {
	nc        *nats.Conn
	responder *request.Responder
	events    *events.Announcer
	keeper    *desk.Keeper
	tenants   *tenants.Tenants // nil: there are none
	historian *survey.Historian
	workers   workers
	waits     *pops.Waits
	awaits    waits
	asker     *listening.Asker
	peers     *peers.Peers
	survey    *peers.Survey // nil: no other bridge opens the store
	sources   *feeds.Runners
	surveyor  *survey.Surveyor
	service   *service
	receiver  *receiver.Receiver
	ending    *failure.Failure // the answer to waiting pops when the bridge drains
	drained   drained
}

// Start serves the store's queues on the connection until Drain. The caller closes
// the connection after Drain, and then the store.
func Start(ctx context.Context, nc *nats.Conn, store *fdbpq.Store, o Options) (*Bridge, error) {
	o = o.withDefaults()
	wr, err := newWire(nc, store, o)
	if err != nil {
		return nil, err
	}
	replies, err := newReplies(o, store.ID())
	if err != nil {
		return nil, err
	}
	stats := request.NewStatistics(verbNames(), max(0, o.MetricsQueues))
	announcer := events.New(nc, wr.Grammar, o.Logger, stats, store.Display)
	b := &Bridge{nc: nc, events: announcer, ending: pops.ErrShutdown, keeper: desk.NewKeeper(o.Logger), responder: &request.Responder{
		Conn: nc, Log: o.Logger, Tracer: o.Tracer, Stats: stats, Gate: request.NewGate(o.Limits.Requests, o.Limits.Bytes),
		Lost: announcer.Lost,
	}}
	if o.Cluster != nil {
		b.ending = errMoved
	}
	schedules, sources := schedule.New(store), source.New(store)
	b.tenants = newTenants(o, store, schedules)
	hasRoom := desk.NewAdmit(o.Room)
	unasked := unasked(hasRoom, b.tenants)
	b.asker = listening.NewAsker(nc, listening.Interest(o.Interest), o.Logger)
	b.waits = pops.NewWaits(pops.WaitsOptions{
		Responder: b.responder, Tenants: b.tenants, Sight: listening.NewSight(b.asker), Places: o.Limits.Waiters, Unseen: o.unseen,
		Serve: b.workers.servePops, LookOnce: b.workers.submitPop,
	})
	asks := explain.NewAsks(o.now)
	explainer := explain.New(explain.Options{
		Store: store, Waiting: b.waits.TakingAt, Lately: asks.Lately, Recent: stats.Recent, Began: time.Now(), Full: fullFor(o.Room, b.tenants),
	})
	b.surveyor = survey.New(store, sources, b.waits.At, explainer.Cause, stats.Queues)
	b.historian = survey.NewHistorian(stats, b.surveyor, o.Logger)
	requests := &dispatcher{Responder: b.responder, Wire: wr, replies: replies, workers: &b.workers, tenants: b.tenants, cluster: o.Cluster}
	b.receiver = requests.newReceiver(nc, o)
	b.awaits = waits{b.waits, &b.workers}
	standby := standby{b.receiver, b.awaits}
	about := &about{options: o, storeID: store.ID(), maxQueueBytes: store.MaxQueueBytes(), started: time.Now().UTC(), id: nuid.Next()}
	self := about.identity()
	b.sources = feeds.New(feeds.Options{
		Store: store, Sources: sources, Wire: wr, Remotes: o.Remotes, Bridge: about.id, Alone: o.Exclusive, Room: unasked, Hold: o.hold, Log: o.Logger,
		Fed: fed(b.responder, b.events, b.tenants), Event: b.events.Source, Failed: b.keeper.Notice,
	})
	b.peers = peers.New(nc, peers.Options{
		Self: self, StoreName: o.StoreName, Logger: o.Logger,
		Store:    peers.Store{Secret: store.Secret(), Time: store.Time},
		Service:  peers.Service{Pause: standby.enter, Resume: standby.leave},
		Remote:   peers.Service{Pause: standby.enterRemote, Resume: standby.leaveRemote},
		Requests: peers.Handlers{Serve: requests.serve, Unknown: requests.unknown},
	})
	if !o.Exclusive {
		requests.owners = b.peers.Owners
		b.survey = peers.NewSurvey(nc, self, store.Process(), peers.Store{Secret: store.Secret(), Time: store.Time}, o.Logger, explainer.Tell)
		explainer.AskOthers(b.survey)
	}
	requests.asks = asks
	base := desk.Desk{
		Responder: b.responder, Wire: wr, Events: b.events, Store: store, Schedules: schedules, Runners: b.sources, Keeper: b.keeper, Tenants: b.tenants,
		Admit: hasRoom, Reserve: o.Reserve, Last: o.Last,
		Batch: batch.Limits{Requests: o.Limits.BatchRequests, Bytes: o.Limits.BatchBytes}, Patience: o.patience, Pace: o.pace, Slow: o.slow, Since: o.since,
	}
	b.workers.init(base, o, pops.Shared{Waits: b.waits, Owners: b.peers.Owners, Asks: asks},
		reads.Options{Explainer: explainer, Waiting: b.waits.At, Taking: b.waits.Taking, System: about.system, History: about.history})
	b.events.Finished = b.workers.results.Finished
	b.service = &service{
		nc: nc, log: o.Logger, about: about, self: self,
		replies: replies, peers: b.peers, stats: stats, queues: b.surveyor,
	}
	if err := b.subscribe(ctx, wr, store, o); err != nil {
		return nil, err
	}
	b.keeper.Start(store, schedules, b.hears(unasked))
	b.historian.Start()
	b.sources.Start()
	b.peers.Start()
	return b, nil
}

// hears is what the bridge does with what happens in the store.
func (b *Bridge) hears(room func(queue string, items, bytes int) (ended func(), full error)) desk.Hears {
	return desk.Hears{
		Event: b.events.Item, Fired: fired(b.responder, b.events, b.tenants), Room: room, Found: found(b.tenants), Deleted: b.events.QueueDeleted,
		Waiting: func() []string { return append(b.waits.Queues(), b.workers.results.Queues()...) },
	}
}

// newWire returns the wire of the bridge's subjects.
func newWire(nc *nats.Conn, store *fdbpq.Store, o Options) (*codec.Wire, error) {
	wr, err := codec.New(o.Prefix, store.Secret(), nc.MaxPayload)
	if err != nil {
		return nil, err
	}
	if o.Tenants != nil {
		wr.WithTenants()
	}
	if o.Site != "" {
		if err := wr.AtSite(o.Site); err != nil {
			return nil, err
		}
	}
	return wr, nil
}

// newReceiver returns a receiver that hands its messages to the dispatcher.
func (d *dispatcher) newReceiver(nc *nats.Conn, o Options) *receiver.Receiver {
	receives := receiver.Options{
		Fronts:   frontsOf(d.Wire),
		Handlers: receiver.Handlers{Request: d.receive, Signal: d.signal, Refuse: d.refusePush, Flood: d.refuseFlood},
		Group:    QueueGroup,
		Backlog:  o.Backlog,
		Logger:   o.Logger,
	}
	if d.tenants != nil {
		d.later = &refusals{flush: func() { _ = nc.FlushTimeout(flushRefusals) }} // fails without a connection: then nothing is sent
		receives.Tenant, receives.Floods = d.tenant, o.Floods
	}
	r := receiver.New(nc, receives)
	d.flood = r.Flood
	return r
}

// subscribe has the bridge receive requests, its clients' and those of other bridges.
func (b *Bridge) subscribe(ctx context.Context, wr *codec.Wire, store *fdbpq.Store, o Options) error {
	if err := b.service.start(ctx); err != nil {
		return err
	}
	wr.Limit.Refresh() // the server has announced its max_payload by now
	if b.peers.Remote != nil {
		b.peers.Remote.Begin(ctx)
	}
	if !o.Exclusive { // other bridges ask this one from its first pop on
		beat(ctx, store, o.Logger)
	}
	err := b.receiver.Start()
	if err == nil && !o.Exclusive {
		if err = errors.Join(b.survey.Start(), b.peers.Owners.Start()); err != nil {
			b.receiver.Close()
		}
	}
	if err != nil {
		b.peers.Owners.Stop()
		b.survey.Stop()
		b.service.stop()
		b.workers.stop()
	}
	return err
}

// beat says in the store that this process has it open.
func beat(ctx context.Context, store *fdbpq.Store, log *slog.Logger) {
	if err := store.Beat(ctx); err != nil {
		log.Debug("saying that this process has the store open failed", "error", err)
	}
}

// Ready returns nil while the bridge serves: its connection is up, its store
// commits, and it is not on standby.
func (b *Bridge) Ready() error {
	if b.responder.Gate.Closed() {
		return errors.New("shutting down")
	}
	if status := b.nc.Status(); status != nats.CONNECTED {
		return fmt.Errorf("NATS connection is %s", strings.ToLower(status.String()))
	}
	if reason := b.peers.Standby.Reason(); reason != nil {
		return reason
	}
	return b.keeper.Ready()
}

// Drain ends the bridge in order. It refuses the waiting pops, unsubscribes from
// requests and answers the requests in flight. Then it does the same for settlements,
// and flushes the connection. When ctx ends first, the remaining requests are not
// answered. The connection and the store stay open. A second call does nothing more.
func (b *Bridge) Drain(ctx context.Context) error {
	b.drained.once.Do(func() { b.drained.err = b.end(ctx) })
	return b.drained.err
}

// Leave ends the bridge's use of its store, which another bridge is about to serve: it answers the requests in
// flight, and refuses new ones (503). It stays subscribed until Drain: a NATS server loses the requests that are on
// their way to a bridge when its last subscription ends, unless there is another bridge by then to which it can
// send them.
func (b *Bridge) Leave(ctx context.Context) error {
	b.peers.Stop()
	b.responder.Gate.Close()
	b.service.stop()
	b.responder.Gate.Work.Refuse(errMoved)
	b.awaits.close(errMoved)
	b.sources.Stop()
	err := errors.Join(b.responder.Gate.Work.Drain(ctx), b.receiver.Await(ctx))
	b.responder.Gate.Settlements.Refuse(errMoved)
	err = errors.Join(err, b.responder.Gate.Settlements.Drain(ctx))
	b.historian.Stop()
	b.keeper.Stop()
	return errors.Join(err, receiver.Flush(ctx, b.nc))
}

// errMoved is the answer to waiting pops when another pqd takes over.
var errMoved = &failure.Failure{Code: 503, Text: "another pqd takes over the store, nothing was done: ask again"}

// drained is the result of Drain.
type drained struct {
	once sync.Once
	err  error
}

func (b *Bridge) end(ctx context.Context) error {
	b.peers.Stop()
	b.responder.Gate.Close()
	b.service.stop()
	b.awaits.close(b.ending)
	err := errors.Join(
		b.peers.Owners.Leave(ctx), b.receiver.DrainRequests(ctx), b.peers.Owners.Settle(ctx), b.responder.Gate.Work.Drain(ctx),
		b.receiver.DrainSettlements(ctx), b.responder.Gate.Settlements.Drain(ctx),
	)
	b.sources.Stop()
	b.receiver.Close()
	err = errors.Join(err, b.workers.end(ctx))
	b.peers.Owners.Stop()
	b.survey.Stop()
	b.asker.Stop()
	b.historian.Stop()
	b.keeper.Stop()
	b.events.Close()
	return errors.Join(err, receiver.Flush(ctx, b.nc))
}

// Settings of a bridge's connection.
const (
	pingInterval   = 20 * time.Second // the client notices a dead server within a minute, not six
	reconnectWait  = 250 * time.Millisecond
	lameDuckSpread = 8 * time.Second // before the server's grace of 10 s is over
)

// ConnectOptions returns the options that a bridge's connection needs; the caller's own
// options go behind them. The connection should serve the bridge alone: it does not
// receive its own messages.
func ConnectOptions(log *slog.Logger) []nats.Option {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return []nats.Option{
		nats.Name("pqbridge"),
		nats.NoEcho(), // events have the prefix of requests
		nats.RetryOnFailedConnect(true),
		nats.MaxReconnects(-1),
		nats.ReconnectWait(reconnectWait),
		nats.ReconnectJitter(reconnectWait, 4*reconnectWait),
		nats.IgnoreAuthErrorAbort(),
		nats.PingInterval(pingInterval),
		// An answer that cannot be sent at once fails. Its lease is given back, and
		// the item is not delivered later to a client that has gone.
		nats.ReconnectBufSize(-1),
		nats.LameDuckModeHandler(func(nc *nats.Conn) { leave(nc, log) }),
		nats.DisconnectErrHandler(func(_ *nats.Conn, err error) {
			log.Warn("disconnected from NATS", "error", err)
		}),
		nats.ReconnectHandler(func(nc *nats.Conn) {
			log.Info("reconnected to NATS", "server", natsurl.Of(nc))
		}),
		nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
			subject := ""
			if sub != nil {
				subject = sub.Subject
			}
			level, text := slog.LevelError, "NATS reported an error"
			switch {
			case errors.Is(err, nats.ErrBadHeaderMsg):
				level = slog.LevelDebug // the answer says so
			case errors.Is(err, nats.ErrPermissionViolation) && strings.Contains(err.Error(), "Publish"):
				// Clients choose the subjects of answers.
				level, text = slog.LevelWarn, "an answer may not be published"
			}
			log.Log(context.Background(), level, text, "subject", subject, "error", err)
		}),
	}
}

// leave moves to another server after this one has announced its stop. A random pause
// spreads the clients, which all get the announcement at the same time.
func leave(nc *nats.Conn, log *slog.Logger) {
	log.Info("the NATS server stops soon", "server", natsurl.Of(nc))
	if len(nc.Servers()) < 2 {
		return
	}
	time.AfterFunc(rand.N(lameDuckSpread), func() {
		if err := nc.ForceReconnect(); err != nil {
			log.Warn("leaving the NATS server failed", "error", err)
		}
	})
}

// unasked returns a function that says whether a queue takes new items that no request brings: items of schedules
// and sources. They cost requests of the tenant, too, and wait until it has some. ended is to be called after the
// transaction.
func unasked(room desk.Admit, all *tenants.Tenants) func(queue string, items, bytes int) (ended func(), full error) {
	return func(queue string, items, bytes int) (func(), error) {
		t := all.OfQueue(queue)
		if f := t.Left(); f != nil {
			return func() {}, f
		}
		to := t.Open()
		return to.End, room(to, items, bytes)
	}
}

// fired counts the firings of schedules and their cost, and announces missed times and a clock that was set.
func fired(re *request.Responder, to *events.Announcer, all *tenants.Tenants) func(schedule.Fired) {
	return func(f schedule.Fired) {
		for queue, n := range f.Queues {
			charge(all, queue, int(n.Fired+n.Overlapped), int(n.Bytes))
			re.Stats.Moved(queue, request.FlowIn, int(n.Fired))
			re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: n.Fired, request.ScheduleFired: n.Fired,
				request.ScheduleMissed: n.Missed, request.ScheduleOverlapped: n.Overlapped})
		}
		for i := range f.Missed {
			to.ScheduleMissed(&f.Missed[i])
		}
		re.Stats.Fired(f.Lateness, f.Offset)
		if f.Clock != 0 {
			by := f.Clock.Round(time.Millisecond)
			re.Log.Warn("set the clock of schedules to this machine's", "by", by)
			to.Clock(by)
		}
	}
}

// fed counts the messages of sources, and their cost.
func fed(re *request.Responder, to *events.Announcer, all *tenants.Tenants) func(queue string, bytes int, f *source.Fed) {
	return func(queue string, bytes int, f *source.Fed) {
		charge(all, queue, f.Done, bytes)
		re.Stats.Moved(queue, request.FlowIn, f.Pushed)
		re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: int64(f.Pushed), request.Duplicates: int64(f.Known), request.Dead: int64(f.Poisoned)})
		to.Items(f.Events)
	}
}

// charge takes requests for items that no request brought.
func charge(all *tenants.Tenants, queue string, items, bytes int) {
	all.OfQueue(queue).Charge(items + bytes/request.OwedBytes)
}

// found charges the keys that sweeps find after a change of the configuration.
func found(all *tenants.Tenants) func(fdbpq.Found) {
	return func(keys fdbpq.Found) {
		for queue, n := range keys {
			all.OfQueue(queue).Weigh(tenants.CostOfKeys(n))
		}
	}
}
