package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/cluster"
	"github.com/pqbridge/pqbridge/internal/jetstream"
	"github.com/pqbridge/pqbridge/internal/natsurl"
	"github.com/pqbridge/pqbridge/protocol"
)

// member is the part of pqd that keeps a store together with others. While it is active,
// it has a bridge. A follower takes no requests.
type member struct {
	settings settings.Settings
	log      *slog.Logger
	metrics  *prometheus.Registry
	embedded *broker.Server
	link     *link.Link     // of the bridge
	options  bridge.Options // of the bridge of each term
	storeLog *storeLog

	name   string
	db     *cluster.DB
	bridge atomic.Pointer[bridge.Bridge]
	asked  chan *handover // to step down
	failed chan error     // an error after which this process has to end
	fled   bool           // has handed over because of damage; only the goroutine run uses it

	front  atomic.Pointer[front]
	cancel context.CancelFunc
	drain  context.Context // bounds requests under way at a stop; set before cancel
	done   sync.WaitGroup
}

// front is a connection with the responder that answers on it whether or not this member serves.
type front struct {
	*bridge.ClusterEndpoint
	nc    *nats.Conn
	ended <-chan struct{} // closed when the connection is
}

// open makes a front.
func (m *member) open(_ context.Context, nc *nats.Conn) error {
	endpoint, err := bridge.ServeCluster(nc, bridge.ClusterOptions{
		Prefix: string(m.settings.Prefix), Site: string(m.settings.Site), ReplySubjects: m.settings.Replies, Logger: m.log,
		Status: m.cluster, StepDown: m.stepDown, Replace: m.replace,
	})
	if err == nil {
		m.front.Store(&front{endpoint, nc, m.link.Ended()})
	}
	return err
}

// start starts to take part in keeping the store. The connections belong to the caller.
func (m *member) start(ctx context.Context) (err error) {
	if m.name, err = m.settings.MemberName(); err != nil {
		return err
	}
	if m.db, err = m.storeLog.openCopy(m.name, false); err != nil {
		return err
	}
	process.AddSpareProcessors()
	m.asked, m.failed = make(chan *handover), make(chan error, 1)
	m.link.Begin, m.link.End = m.open, func() { m.front.Load().Stop() }
	if err := m.link.Use(ctx); err != nil {
		return errors.Join(err, m.db.Close())
	}
	ctx, m.cancel = context.WithCancel(context.Background())
	m.done.Go(func() { m.run(ctx) })
	m.done.Go(func() { m.link.Keep(ctx) })
	if m.embedded != nil {
		m.done.Go(func() { m.watchReplica(ctx) })
		m.done.Go(func() { m.sendAway(ctx) })
		m.done.Go(func() { m.routes().Watch(ctx) })
		m.done.Go(func() { m.elector().Watch(ctx) })
	} else {
		m.done.Go(func() {
			reach{reached: m.reached, leave: func(silence time.Duration) { m.leave(silence, m.storeLog.nc) }}.watch(ctx)
		})
	}
	return nil
}

// run serves in each term of this member until ctx ends.
func (m *member) run(ctx context.Context) {
	for {
		term, err := m.db.Term(ctx)
		if err != nil {
			return // ctx has ended
		}
		if m.link.Away() != nil {
			m.release(ctx) // no client reaches this member, so another one has to serve
			m.link.Await(ctx)
			continue
		}
		if err := m.serve(ctx, term); err != nil {
			m.log.Error("serving the store failed: another pqd may take over", "epoch", term.Epoch(), "error", err)
			m.release(ctx)
		}
	}
}

// reached is the time at which a leader of the log answered last.
func (m *member) reached() time.Time { return m.db.Status().Reached }

// leave moves to another NATS server. Clients have to be at a server that reaches the log, too: otherwise this pqd
// would be active at a server that clients do not use.
func (m *member) leave(silence time.Duration, log *nats.Conn) {
	m.log.Warn("the log is out of reach: connecting to another NATS server, if there is one", "server", natsurl.Of(log), "for", silence.Round(time.Second))
	for _, nc := range []*nats.Conn{log, m.link.Conn()} {
		if err := nc.ForceReconnect(); err != nil {
			m.log.Debug("reconnecting failed", "error", err)
		}
	}
}

// releaseLimit bounds the wait for the log to take the release.
const releaseLimit = 2 * time.Second

func (m *member) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, releaseLimit)
	defer cancel()
	if err := m.db.Release(ctx, ""); err != nil && !errors.Is(err, cluster.ErrNotActive) {
		m.log.Warn("stepping down failed", "error", err)
	}
}

// serve runs a bridge until the term or ctx ends. The memory of the bridge and of the store belongs to the term and
// ends with it.
func (m *member) serve(ctx context.Context, term *cluster.Term) error {
	starting, cancel := untilOver(ctx, term)
	defer cancel()
	options := store.Options(m.settings)
	options.Exclusive, options.Followed = true, true // within the term, and by another member
	options.Full = func() error { return m.room(0) }
	if written, known := term.LastWrite(); known {
		silence := time.Since(written)
		options.Downtime = &silence
	}
	front := m.front.Load()
	store, err := fdbpq.Open(starting, term, options)
	var b *bridge.Bridge
	if err == nil {
		options := m.options
		options.Cluster, options.Room, options.Reserve = front.ClusterEndpoint, m.room, m.reserve
		b, err = bridge.Start(starting, front.nc, store, options)
	}
	select {
	case <-term.Over():
		err = nil // another member has taken over
	case <-ctx.Done():
		err = nil
	default:
	}
	if err != nil {
		return err
	}
	if b != nil {
		m.attend(ctx, term, b, front, store.ID())
	}
	return nil
}

// untilOver returns a context that ends with the term.
func untilOver(ctx context.Context, term *cluster.Term) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-term.Over():
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// attend waits until the term is over, the connection is closed, or ctx ends, and drains the bridge.
func (m *member) attend(ctx context.Context, term *cluster.Term, b *bridge.Bridge, front *front, storeID string) {
	numbers := b.Collector()
	m.metrics.MustRegister(numbers)
	m.bridge.Store(b)
	m.log.Info("serving", "epoch", term.Epoch(), "store_id", storeID)
	event := protocol.ActiveEvent{Node: m.name, Epoch: term.Epoch()}
	if err := (bridge.ClusterOptions{Prefix: string(m.settings.Prefix), Site: string(m.settings.Site)}).AnnounceActive(front.nc, event); err != nil {
		m.log.Debug("event lost", "event", protocol.EventActive, "error", err)
	}
	drain := context.WithoutCancel(ctx)
	var asked *handover
	lost := false // the connection
	look := time.NewTicker(damageEvery)
	defer look.Stop()
	for serves := true; serves; {
		serves = false
		select {
		case <-term.Over():
			m.log.Warn("stopped serving: another pqd serves, or none can", "epoch", term.Epoch(), "because", term.Reason())
		case asked = <-m.asked:
			m.log.Info("stepping down", "epoch", term.Epoch(), "successor", asked.to)
		case <-front.ended:
			m.log.Warn("stopped serving: the connection to NATS is closed", "epoch", term.Epoch())
			lost = true
		case <-ctx.Done():
			drain = m.drain
		case <-look.C:
			asked = m.handOverDamaged()
			serves = asked == nil
		}
	}
	drain, cancel := context.WithTimeout(drain, process.DrainLimit)
	defer cancel()
	m.bridge.Store(nil)
	if asked != nil || ctx.Err() != nil {
		m.handOver(ctx, drain, term, b, asked)
	}
	if err := b.Drain(drain); err != nil {
		m.log.Warn("draining the bridge failed", "error", err)
	}
	m.metrics.Unregister(numbers)
	if lost {
		m.release(ctx)
	}
}

// stop answers the requests under way, and hands over to another pqd, with the leadership of the log if the
// embedded server has it.
func (m *member) stop(drain context.Context) error {
	m.drain = drain
	m.cancel()
	m.done.Wait()
	m.moveLog(drain)
	err := m.db.Close()
	m.front.Load().Stop()
	return err
}

// ready says why this pqd cannot do its part, or nil. The part of a follower is to follow.
func (m *member) ready() error {
	status := m.db.Status()
	var missing error
	if r := m.storeLog.replica(); m.embedded != nil && status.Epoch > 0 {
		missing = r.Missing(jetstream.Stream(m.settings.Store.Place, status.Generation), 0)
	}
	if m.embedded != nil {
		if err := cmp.Or(m.outside(), m.embedded.Groups().Err()); err != nil {
			return health.Waiting(err)
		}
	}
	switch {
	case status.Role == cluster.Stopped:
		return fmt.Errorf("store: %s", status.Reason)
	case status.Reason != "":
		return health.Waiting(fmt.Errorf("store: %s", status.Reason))
	case m.link.Away() != nil:
		return health.Waiting(m.link.Away())
	case m.link.Conn().Status() != nats.CONNECTED:
		return errors.New("NATS connection is " + m.link.Conn().Status().String())
	case missing != nil:
		return health.Waiting(missing)
	case status.Role == cluster.Active:
		if b := m.bridge.Load(); b != nil {
			return b.Ready()
		}
		return health.Waiting(errors.New("about to serve"))
	case status.Epoch == 0:
		return health.Waiting(errors.New("store: waiting for the other nodes"))
	}
	if r := m.storeLog.replica(); m.embedded != nil {
		if err := r.Ready(); err != nil {
			return health.Waiting(err)
		}
	}
	if err := behind(status); err != nil {
		return health.Waiting(err)
	}
	return nil
}

// readyLag is how many entries the copy of a follower may lack: more than it lacks under load,
// and less than it reads in a second.
const readyLag = 1000

// behind says that a follower lacks too many entries, or nil. If other nodes ended, it might be the node that has
// to go on.
func behind(s cluster.Status) error {
	if lag := s.Lag(s.Entry); lag > readyLag {
		return fmt.Errorf("store: this node's copy lacks %d entries of the log, and follows", lag)
	}
	if !s.CaughtUp {
		return errors.New("store: this node has not caught up with an active one since it started")
	}
	return nil
}

// role is the role of this pqd in the cluster.
func (m *member) role() string { return string(m.db.Status().Role) }

// awaitReady returns true when the member is ready for the first time, and false when ctx ends. It logs the reason
// for the wait.
func (m *member) awaitReady(ctx context.Context, log *slog.Logger) bool {
	pause := time.NewTicker(readyEvery)
	defer pause.Stop()
	told := ""
	for {
		err := m.ready()
		if err == nil {
			return true
		}
		if reason := err.Error(); reason != told {
			told = reason
			log.Info("waiting", "for", reason)
		}
		select {
		case <-pause.C:
		case <-ctx.Done():
			return false
		}
	}
}

// readyEvery is the time between looks whether the member is ready.
const readyEvery = 50 * time.Millisecond

// initStore makes the store of PQ_STORE=jetstream:<name> that does not exist yet. The
// nodes of PQ_CLUSTER do that by themselves.
func initStore(ctx context.Context, s settings.Settings, log *slog.Logger) error {
	switch {
	case !s.Shared():
		return settings.Usagef("PQ_STORE=%s is made by pqd when it starts: expected PQ_STORE=jetstream:<name>", s.Store)
	case len(s.Cluster) > 0:
		return settings.Usagef("the nodes of PQ_CLUSTER make their store when all of them run: expected PQ_STORE=jetstream:<name> with NATS_URL")
	case s.Store.Stream.MaxBytes == 0:
		return settings.Usagef("PQ_STORE=%s: expected ?max_bytes=<size>, the largest size of the stream that is to be made", s.Store)
	}
	login, err := link.Login(s.NATS)
	if err != nil {
		return err
	}
	l := &storeLog{settings: s, log: log}
	if err := l.connect(ctx, login); err != nil {
		return err
	}
	defer l.nc.Close()
	name, err := s.MemberName()
	if err != nil {
		return err
	}
	db, err := l.openCopy(name, true)
	if err != nil {
		return err
	}
	for {
		changed, status := db.Changed(), db.Status()
		if status.Role == cluster.Stopped {
			return errors.Join(fmt.Errorf("PQ_STORE=%s: %s", s.Store, status.Reason), db.Close())
		}
		if status.Epoch > 0 {
			break
		}
		select {
		case <-changed:
		case <-time.After(readyEvery): // the epoch has no event
		case <-ctx.Done():
			return errors.Join(ctx.Err(), db.Close())
		}
	}
	if err := db.Close(); err != nil && !errors.Is(err, kv.ErrClosed) {
		return err
	}
	log.Info("the store is there", "store", s.Store.String())
	return l.check(ctx)
}
