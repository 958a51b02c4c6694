package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/commands"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/node"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/room"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/store"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/web"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/natsurl"
)

// daemon starts the parts of pqd, and has the things that they share.
type daemon struct {
	settings settings.Settings
	log      *slog.Logger
	metrics  *prometheus.Registry
	health   health.Health
	damage   store.Damage
	store    *fdbpq.Store   // nil in a pqd that keeps a store together with others
	broker   *broker.Server // nil when NATS_URL is set
	remotes  *remotesFile
	tenants  *tenantsFile
	room     *room.Store // nil: no room has to stay free, or the store is not embedded
}

// serve starts the parts of pqd, each on top of the one before, and serves until ctx ends
// or a part fails. Then it stops them in reverse order: the bridge answers the requests
// that it has received, its connection closes, and the store closes last.
func (d *daemon) serve(ctx context.Context) (err error) {
	// Wrong settings are found before anything starts.
	login, err := link.Login(d.settings.NATS)
	if err != nil {
		return err
	}
	server, err := broker.NewServer(d.settings, d.log)
	if err != nil {
		return err
	}
	if d.settings.NATS.URL == "" {
		d.broker = server
	}
	d.remotes = &remotesFile{settings: d.settings, log: d.log, broker: d.broker}
	d.tenants = &tenantsFile{settings: d.settings, log: d.log}
	if err := errors.Join(d.remotes.read(), d.tenants.read()); err != nil {
		return err
	}

	reloads, forgetHangups := hangups()
	defer forgetHangups()
	var started process.Running
	defer func() { err = errors.Join(err, started.Stop()) }()
	r, err := d.startAll(ctx, login, &started)
	if err != nil {
		return err
	}
	err = d.untilStopped(ctx, reloads, r)
	return errors.Join(err, d.drain(ctx, r.service))
}

// running are the parts that pqd watches while it serves.
type running struct {
	web     *web.Server
	link    *link.Link // of the bridge
	service service
}

// startAll starts all parts.
func (d *daemon) startAll(ctx context.Context, login []nats.Option, started *process.Running) (r running, err error) {
	tracer, stopTracing, err := startTracing(ctx, d.log)
	if err != nil {
		return r, err
	}
	started.Add("stop tracing", func() error {
		stopTracing()
		return nil
	})
	if !d.settings.Shared() {
		if err := d.startStore(ctx, started); err != nil {
			return r, err
		}
	} else if err := room.GiveUpEarly(d.settings, d.log); err != nil {
		return r, err
	}
	if d.broker != nil {
		if err := d.broker.Start(ctx, started); err != nil {
			return r, err
		}
	}
	pages := &web.Pages{Settings: d.settings, Log: d.log, Metrics: d.metrics, Health: &d.health, TenantOf: d.tenants.byToken, HaveTokens: d.tenants.haveTokens}
	if r.web, err = pages.Start(started); err != nil {
		return r, err
	}
	if r.link, err = d.connectNATS(ctx, login, started); err != nil {
		return r, err
	}
	var log *node.Log
	if d.settings.Shared() {
		if log, err = d.connectLog(ctx, login, started); err != nil {
			return r, err
		}
	}
	console, err := pages.Connect(ctx, d.broker, started)
	if err != nil {
		return r, err
	}
	if d.broker != nil {
		d.broker.WatchClients(ctx, d.metrics, started, ownConnections(r.link, log, console))
	}
	r.service, err = d.startService(ctx, r.link, log, tracer, started)
	return r, err
}

// ownConnections tell the ids of pqd's own connections to its server. Those to the log and of the console may be missing.
func ownConnections(bridge *link.Link, log *node.Log, console *link.Link) []func() (uint64, error) {
	own := []func() (uint64, error){func() (uint64, error) { return bridge.Conn().GetClientID() }}
	if log != nil {
		own = append(own, log.ClientID)
	}
	if console != nil {
		own = append(own, func() (uint64, error) { return console.Conn().GetClientID() })
	}
	return own
}

// untilStopped waits for the end of ctx or the failure of a part. Meanwhile it reports
// that pqd is ready, and reads files again on SIGHUP.
func (d *daemon) untilStopped(ctx context.Context, reloads <-chan os.Signal, r running) error {
	for ready := r.service.ready; ; {
		select {
		case <-ready:
			ready = nil
			d.log.Info("ready", "nats", d.advertised(r.link.Conn()), "http", r.web.URL(), "store", d.settings.Store.String(),
				"prefix", string(d.settings.Prefix), "version", version())
		case <-reloads:
			d.reload()
		case <-ctx.Done():
			return nil
		case err := <-r.web.Failed():
			return err
		case err := <-r.service.failed:
			return err
		}
	}
}

// reload reads files again that an operator may have changed.
func (d *daemon) reload() {
	if d.settings.Remotes == "" && d.settings.Tenants == "" && d.settings.NATSConfig == "" {
		d.log.Info("SIGHUP: nothing to reload: pqd reads the files of PQ_NATS_CONFIG, PQ_REMOTES and PQ_TENANTS again, and none of them is set")
	}
	if d.settings.Remotes != "" {
		d.remotes.reload()
	}
	if d.settings.Tenants != "" {
		d.tenants.reload()
	}
	if d.settings.NATSConfig != "" {
		d.broker.Reload()
	}
}

// drain answers the requests that pqd has received, and waits until clients have read the
// answers. New requests go to another pqd, or the server answers that there are no
// responders.
func (d *daemon) drain(ctx context.Context, s service) (err error) {
	d.health.Stop()
	d.log.Info("stopping")
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), process.ReadLimit)
	defer cancel()
	drain, cancel := context.WithTimeout(read, process.DrainLimit)
	defer cancel()
	if d.settings.Shared() {
		// Another pqd serves the clients of this one before they have to go.
		if failure := s.drain(drain); failure != nil {
			err = fmt.Errorf("hand over: %w", failure)
		}
	}
	if d.broker != nil {
		tell, cancel := context.WithTimeout(drain, process.TellLimit)
		d.broker.EnterLameDuck(tell)
		cancel()
	}
	if !d.settings.Shared() {
		if failure := s.drain(drain); failure != nil {
			err = errors.Join(err, fmt.Errorf("drain the bridge: %w", failure))
		}
	}
	if d.broker == nil {
		return err
	}
	behind, failure := d.broker.AwaitRead(read)
	if behind > 0 {
		d.log.Warn("closing connections whose clients did not read their answers in time", "connections", behind)
	}
	if failure != nil {
		err = errors.Join(err, fmt.Errorf("wait for clients to read: %w", failure))
	}
	return err
}

// startStore opens the store, and the queues in it: an embedded store, or one on FoundationDB.
func (d *daemon) startStore(ctx context.Context, started *process.Running) error {
	db, numbers, err := store.Open(ctx, d.settings, d.log)
	if err != nil {
		return err
	}
	started.Add("close the store", db.Close)
	if numbers != nil {
		d.metrics.MustRegister(numbers)
	}
	embedded, isEmbedded := db.(*local.DB)
	if isEmbedded {
		started.Add("close the socket for backups", commands.StartControl(d.settings.Socket(), embedded, nil, d.log).Stop)
		d.metrics.MustRegister(room.Metrics(d.settings.Store.Place))
		process.AddSpareProcessors()
		d.room = room.Watch(ctx, d.settings, embedded, d.log, started)
	}
	options := store.Options(d.settings)
	if d.room != nil {
		options.Full, options.Low = func(bytes int64) error { return d.room.Admit(int(bytes)) }, d.room.Low
	}
	if d.store, err = fdbpq.Open(ctx, db, options); err != nil {
		return fmt.Errorf("PQ_STORE=%s: %w", d.settings.Store, err)
	}
	if isEmbedded {
		d.damage.Of(embedded, d.store)
		d.health.Stored(d.damage.Err)
	}
	return nil
}

// connectNATS makes the connection of the bridge.
func (d *daemon) connectNATS(ctx context.Context, login []nats.Option, started *process.Running) (*link.Link, error) {
	options := slices.Concat(bridge.ConnectOptions(d.log), login, d.broker.InProcess(), []nats.Option{
		nats.Name("pqd"),
		nats.RetryOnFailedConnect(false), // link.Connect does that, and knows which errors pass
	})
	l := &link.Link{Name: "pqd's connection", Log: d.log, Dial: func(ctx context.Context, more ...nats.Option) (*nats.Conn, error) {
		return link.Connect(ctx, d.settings.NATS.URL, slices.Concat(options, more), d.log)
	}}
	if err := l.Connect(ctx); err != nil {
		return nil, err
	}
	started.Add("close the connection to NATS", l.Close)
	return l, nil
}

// connectLog makes the connection to the log of a store that several pqd keep.
func (d *daemon) connectLog(ctx context.Context, login []nats.Option, started *process.Running) (*node.Log, error) {
	log, err := node.ConnectLog(ctx, d.settings, d.log, d.broker, login)
	if err != nil {
		return nil, err
	}
	started.Add("close the connection to the log", func() error {
		log.Close()
		return nil
	})
	if d.broker == nil {
		err = node.CheckUsers(ctx, log)
	}
	return log, err
}

// service answers requests: it has a bridge, or the bridges of a node, one a term.
type service struct {
	ready <-chan struct{} // closed when pqd is ready for the first time
	drain func(context.Context) error

	failed <-chan error // an error after which it cannot go on; nil: there is none
}

// startService starts to answer requests.
func (d *daemon) startService(ctx context.Context, l *link.Link, log *node.Log, tracer trace.Tracer, started *process.Running) (service, error) {
	ready := make(chan struct{})
	s := service{ready: ready}
	if d.settings.Shared() {
		n, err := node.Start(ctx, node.Needs{
			Settings: d.settings, Version: version(), Logger: d.log, Metrics: d.metrics, Link: l, Log: log, Bridge: d.bridgeOptions(tracer),
		})
		if err != nil {
			return s, err
		}
		d.health.Copies(n.Damaged)
		s.drain, s.failed = n.Stop, n.Failed()
		started.Add("close the socket for backups", commands.StartControl(d.settings.Socket(), n.DB(), n.DB(), d.log).Stop)
		d.metrics.MustRegister(n.Metrics(), room.Metrics(string(d.settings.Data)))
		d.health.Node(n.Ready, n.Role)
		started.InBackground(ctx, func(ctx context.Context) {
			if n.AwaitReady(ctx) {
				close(ready)
			}
		})
	} else {
		b := &keptBridge{store: d.store, options: d.bridgeOptions(tracer), metrics: d.metrics, link: l}
		if err := b.start(ctx); err != nil {
			return s, err
		}
		s.drain = b.drain
		d.health.Serving(b.ready)
		close(ready)
	}
	started.InBackground(ctx, (&rights{settings: d.settings, log: d.log, nc: l.Conn()}).warn)
	return s, nil
}

// bridgeOptions are the options of each bridge of this process.
func (d *daemon) bridgeOptions(tracer trace.Tracer) bridge.Options {
	options := bridge.Options{
		Prefix:    string(d.settings.Prefix),
		Site:      string(d.settings.Site),
		Version:   version(),
		StoreName: d.settings.Store.String(),
		Exclusive: d.settings.Store.Embedded(),
		Damage:    d.damage.Describe,
		Disk:      room.Disk(d.settings),
		Logger:    d.log,
		Tracer:    tracer,
		Backlog:   d.broker.Backlog(),
		Floods:    d.broker.Floods(),
		Interest:  d.broker.Listens(),

		ReplySubjects: d.settings.Replies,
		MetricsQueues: d.settings.Queues.Option(),
		Remotes:       d.remotes.known,
	}
	if d.room != nil {
		options.Disk = room.DiskWith(options.Disk, d.room.Last)
		options.Room, options.Reserve, options.Last = d.room.Admit, d.room.Reserve, d.room.Last
	}
	if d.settings.Tenants != "" {
		options.Tenants = d.tenants.quotas
	}
	return options
}

// advertised is the address for clients.
func (d *daemon) advertised(nc *nats.Conn) string {
	if d.broker != nil {
		return d.broker.URL()
	}
	return natsurl.Of(nc)
}

// keptBridge is the bridge of a pqd with an embedded store, or on FoundationDB. When the link makes another
// connection, another bridge begins on it.
type keptBridge struct {
	store   *fdbpq.Store
	options bridge.Options
	metrics *prometheus.Registry
	link    *link.Link

	latest  atomic.Pointer[bridge.Bridge]
	numbers prometheus.Collector // of latest
	cancel  context.CancelFunc
	keeping sync.WaitGroup
}

// start starts the first bridge. ctx bounds only the start: the bridge serves until it is drained.
func (k *keptBridge) start(ctx context.Context) error {
	k.link.Begin, k.link.End = k.begin, k.end
	if err := k.link.Use(ctx); err != nil {
		return err
	}
	ctx, k.cancel = context.WithCancel(context.WithoutCancel(ctx))
	k.keeping.Go(func() { k.link.Keep(ctx) })
	return nil
}

func (k *keptBridge) begin(ctx context.Context, nc *nats.Conn) error {
	b, err := bridge.Start(ctx, nc, k.store, k.options)
	if err != nil {
		return err
	}
	k.numbers = b.Collector()
	k.metrics.MustRegister(k.numbers)
	k.latest.Store(b)
	return nil
}

// lostLimit bounds the end of a bridge whose connection is closed: its answers reach no client, and items that it
// gave without an answer return to their queues.
const lostLimit = 5 * time.Second

func (k *keptBridge) end() {
	ctx, cancel := context.WithTimeout(context.Background(), lostLimit)
	defer cancel()
	_ = k.latest.Load().Drain(ctx) // the connection is closed, which is in the log
	k.metrics.Unregister(k.numbers)
}

// drain answers what is under way.
func (k *keptBridge) drain(ctx context.Context) error {
	k.cancel()
	k.keeping.Wait()
	if k.link.Away() != nil {
		return nil
	}
	return k.latest.Load().Drain(ctx)
}

func (k *keptBridge) ready() error {
	if err := k.link.Waits(); err != nil {
		return health.Waiting(err)
	}
	return k.latest.Load().Ready()
}
