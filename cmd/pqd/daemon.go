package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/broker"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
	"github.com/pqbridge/pqbridge/internal/gateway"
)

// daemon is what the parts of pqd have in common.
type daemon struct {
	settings settings.Settings
	log      *slog.Logger
	metrics  *prometheus.Registry
	health   health
	damage   damage
	store    atomic.Pointer[fdbpq.Store] // the latest one of this process
	embedded *server.Server              // nil when NATS_URL is set
	pipe     *broker.PipeDialer          // to the embedded server
	secret   *broker.OtherSecret         // of a node of PQ_CLUSTER
	groups   broker.DamagedGroups        // of such a node
	lameDuck chan struct{}               // closed when the embedded server has announced that it stops
	nc       atomic.Pointer[nats.Conn]
	gateway  *gateway.Gateway // nil: off
	remotes  atomic.Pointer[map[string]bridge.Remote]
	tenants  atomic.Pointer[settings.Tenants] // nil: there are none
	room     func(bytes int) error            // why the store takes no new items; nil: nothing is in the way
}

// serve starts the parts of pqd, each on top of the one before, and serves until ctx ends
// or a part fails. Then it stops them in reverse order: the bridge answers the requests
// that it has received, its connection closes, and the store closes last.
func (d *daemon) serve(ctx context.Context) (err error) {
	// Wrong settings are found before anything starts.
	login, err := loginOptions(d.settings.NATS)
	if err != nil {
		return err
	}
	embedded, err := broker.EmbeddedSettings(d.settings)
	if err != nil {
		return err
	}
	if err := errors.Join(d.readRemotes(), d.readTenants()); err != nil {
		return err
	}

	if len(d.settings.Cluster) > 0 {
		d.secret = &broker.OtherSecret{Log: d.log}
		embedded.Secret, embedded.Groups = d.secret, &d.groups
	}
	hangups, forgetHangups := d.hangups()
	defer forgetHangups()
	var started parts
	defer func() { err = errors.Join(err, started.stop()) }()
	r, err := d.startAll(ctx, login, embedded, &started)
	if err != nil {
		return err
	}
	err = d.untilStopped(ctx, hangups, r)
	return errors.Join(err, d.drain(ctx, r.service))
}

// running are the parts that pqd watches while it serves.
type running struct {
	web     *webServer
	nc      *nats.Conn
	closed  <-chan error // why the connection to NATS was closed for good
	service service
}

// startAll starts all parts.
func (d *daemon) startAll(ctx context.Context, login []nats.Option, embedded broker.EmbeddedServer, started *parts) (r running, err error) {
	tracer, stopTracing, err := startTracing(ctx, d.log)
	if err != nil {
		return r, err
	}
	started.add("stop tracing", func() error {
		stopTracing()
		return nil
	})
	if !d.settings.Shared() {
		if err := d.startStore(ctx, started); err != nil {
			return r, err
		}
	}
	if d.settings.NATS.URL == "" {
		if err := d.startNATS(ctx, embedded, started); err != nil {
			return r, err
		}
	}
	if d.gateway, err = newGateway(d.settings, d.log); err != nil {
		return r, err
	}
	if r.web, err = d.startWeb(started); err != nil {
		return r, err
	}
	if r.nc, r.closed, err = d.connectNATS(ctx, login, started); err != nil {
		return r, err
	}
	var log *nats.Conn
	if d.settings.Shared() {
		if log, err = d.logConnection(ctx, login); err != nil {
			return r, err
		}
		started.add("close the connection to the log", func() error {
			log.Close()
			return nil
		})
		if d.embedded == nil {
			if err := d.checkLog(ctx, log); err != nil {
				return r, err
			}
		}
	}
	var console *nats.Conn
	if d.gateway != nil {
		if console, err = d.connectConsole(ctx, started); err != nil {
			return r, err
		}
	}
	if d.embedded != nil {
		d.startWatchingClients(ctx, started, r.nc, log, console)
	}
	r.service, err = d.startService(ctx, r.nc, log, tracer, started)
	return r, err
}

// untilStopped waits for the end of ctx or the failure of a part. Meanwhile it reports
// that pqd is ready, and reloads the embedded server's configuration on SIGHUP.
func (d *daemon) untilStopped(ctx context.Context, hangups <-chan os.Signal, r running) error {
	for ready := r.service.ready; ; {
		select {
		case <-ready:
			ready = nil
			d.log.Info("ready", "nats", d.advertised(r.nc), "http", r.web.url(), "store", d.settings.Store.String(),
				"prefix", string(d.settings.Prefix), "version", version())
		case <-hangups:
			d.reload()
		case <-ctx.Done():
			return nil
		case err := <-r.web.failed:
			return err
		case err := <-r.service.failed:
			return err
		case err := <-r.closed:
			return fmt.Errorf("the connection to NATS was closed for good: %w", err)
		}
	}
}

// startStore opens the store of a pqd that shares it with no other, or on FoundationDB,
// and the queues in it.
func (d *daemon) startStore(ctx context.Context, started *parts) error {
	db, numbers, err := openStore(ctx, d.settings, d.log)
	if err != nil {
		return err
	}
	started.add("close the store", db.Close)
	if numbers != nil {
		d.metrics.MustRegister(numbers)
	}
	embedded, isEmbedded := db.(*local.DB)
	if isEmbedded {
		started.add("close the socket for backups", startControl(d.settings.Socket(), embedded, nil, d.log).stop)
		d.metrics.MustRegister(diskMetrics{d.settings.Store.Place})
		process.AddSpareProcessors()
		d.watchRoom(ctx, embedded, started)
	}
	store, err := fdbpq.Open(ctx, db, storeOptions(d.settings))
	if err != nil {
		return fmt.Errorf("PQ_STORE=%s: %w", d.settings.Store, err)
	}
	d.store.Store(store)
	if isEmbedded {
		d.damage.db, d.damage.store = embedded, store
		d.health.stored(d.damage.err)
	}
	return nil
}

// startNATS starts the embedded NATS server.
func (d *daemon) startNATS(ctx context.Context, embedded broker.EmbeddedServer, started *parts) (err error) {
	if d.embedded, err = d.startServer(ctx, embedded); err != nil {
		return err
	}
	d.pipe = broker.NewBridgePipeDialer(d.embedded)
	started.add("stop the embedded NATS server", func() error {
		d.embedded.Shutdown()
		d.embedded.WaitForShutdown()
		return d.groups.SetAside(d.settings, embedded.Options, d.log)
	})
	return nil
}

func (d *daemon) startWeb(started *parts) (*webServer, error) {
	pages := routes(&d.health, d.metrics, d.settings.HTTPHosts)
	all := withConsole(pages, d.gateway, d.settings.HTTPHosts)
	if d.settings.Profile {
		serveProfiles(pages, d.settings.HTTPHosts)
	}
	cert, err := newWebCertificate(d.settings, d.log)
	if err != nil {
		return nil, err
	}
	web, err := startHTTP(d.settings.HTTP, cert, all, d.log)
	if err != nil {
		return nil, err
	}
	started.add("stop the HTTP server", web.stop)
	return web, nil
}

// connectNATS makes the connection of the bridge. closed has an error when it is closed
// for good.
func (d *daemon) connectNATS(ctx context.Context, login []nats.Option, started *parts) (nc *nats.Conn, closed <-chan error, err error) {
	lost := make(chan error, 1)
	options := slices.Concat(bridge.ConnectOptions(d.log), login, d.inProcess(), []nats.Option{
		nats.Name("pqd"),
		nats.RetryOnFailedConnect(false), // connect does that, and tells what will pass from what will not
		nats.ClosedHandler(func(nc *nats.Conn) { lost <- nc.LastError() }),
	})
	if nc, err = connect(ctx, d.settings.NATS.URL, options, d.log); err != nil {
		return nil, nil, err
	}
	d.nc.Store(nc)
	started.add("close the connection to NATS", func() error {
		nc.SetDisconnectErrHandler(nil) // this one is no news
		nc.Close()
		return nil
	})
	return nc, lost, nil
}

// inProcess are the options that connect the bridge to the embedded NATS server.
func (d *daemon) inProcess() []nats.Option {
	if d.embedded == nil {
		return nil
	}
	announced := sync.OnceFunc(func() { close(d.lameDuck) }) // a server may say it again
	return []nats.Option{
		nats.InProcessServer(d.pipe),
		// No other client connects at the same time, and there is no network to fail.
		nats.ReconnectWait(broker.PipeReconnectWait),
		nats.ReconnectJitter(0, 0),
		nats.ReconnectHandler(func(*nats.Conn) { d.log.Info("reconnected to NATS", "server", "embedded") }),
		nats.LameDuckModeHandler(func(*nats.Conn) { announced() }),
	}
}

// startWatchingClients closes clients of the embedded server that do not read. The
// connections are pqd's own; those that do not exist are nil.
func (d *daemon) startWatchingClients(ctx context.Context, started *parts, connections ...*nats.Conn) {
	var own []func() (uint64, error)
	for _, nc := range connections {
		if nc != nil {
			own = append(own, nc.GetClientID)
		}
	}
	slow := broker.NewSlowClients(d.embedded, own, broker.UnreadBudget(debug.SetMemoryLimit(-1)), d.log)
	d.metrics.MustRegister(slow.Closed)
	// Clients read their last answers while pqd stops.
	started.inBackground(context.WithoutCancel(ctx), slow.Watch)
}

// service is what answers requests: a bridge, or the bridges of a member, one a term.
type service struct {
	ready <-chan struct{} // closed when pqd is ready for the first time
	drain func(context.Context) error

	failed <-chan error // why it cannot go on; nil: it always can
}

// startService starts to answer requests.
func (d *daemon) startService(ctx context.Context, nc, log *nats.Conn, tracer trace.Tracer, started *parts) (service, error) {
	ready := make(chan struct{})
	s := service{ready: ready}
	if d.settings.Shared() {
		m, err := d.startMember(nc, log, tracer)
		if err != nil {
			return s, err
		}
		s.drain, s.failed = m.stop, m.failed
		started.add("close the socket for backups", startControl(d.settings.Socket(), m.db, m.db, d.log).stop)
		d.metrics.MustRegister(memberMetrics{m.db}, diskMetrics{string(d.settings.Data)})
		d.health.member(m.ready, m.role)
		started.inBackground(ctx, func(ctx context.Context) {
			if m.awaitReady(ctx, d.log) {
				close(ready)
			}
		})
	} else {
		// ctx bounds the start alone: the bridge serves until it is drained.
		b, err := bridge.Start(ctx, nc, d.store.Load(), d.bridgeOptions(tracer))
		if err != nil {
			return s, err
		}
		s.drain = b.Drain
		d.metrics.MustRegister(b.Collector())
		d.health.serving(b.Ready)
		close(ready)
	}
	started.inBackground(ctx, func(ctx context.Context) { d.warnOfRights(ctx, nc) })
	return s, nil
}

// bridgeOptions are those of each bridge of this process.
func (d *daemon) bridgeOptions(tracer trace.Tracer) bridge.Options {
	options := bridge.Options{
		Prefix:    string(d.settings.Prefix),
		Site:      string(d.settings.Site),
		Version:   version(),
		StoreName: d.settings.Store.String(),
		Exclusive: d.settings.Store.Embedded(),
		Damage:    d.damage.describe,
		Room:      d.room,
		Logger:    d.log,
		Tracer:    tracer,
		Backlog:   d.backlog(),

		ReplySubjects: d.settings.Replies,
		MetricsQueues: d.settings.Queues.Option(),
		Remotes:       d.knownRemotes,
	}
	if d.settings.Tenants != "" {
		options.Tenants = d.quotas
	}
	return options
}

// backlog gets values while the embedded server holds too much for the bridge; nil if
// there is no embedded server.
func (d *daemon) backlog() <-chan struct{} {
	if d.pipe == nil {
		return nil
	}
	return d.pipe.Backlog
}

// advertised is the address for clients.
func (d *daemon) advertised(nc *nats.Conn) string {
	if d.embedded != nil {
		return d.embedded.ClientURL()
	}
	return nc.ConnectedUrlRedacted()
}
