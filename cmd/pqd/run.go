package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// What shutdownLimit is spent on. The rest is for closing the store.
const (
	tellLimit  = time.Second     // for the embedded NATS server to tell its clients
	drainLimit = 7 * time.Second // for answers to reach the NATS server
	readLimit  = 9 * time.Second // and from there, if it is embedded, the clients
)

// run is the program: it returns when ctx has ended and everything is down, or
// when something failed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("pqd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned and reported once
	showVersion := flags.Bool("version", false, "")
	args, err := parseArgs(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printUsage(stdout)
	case err != nil:
		return usagef("%w: expected --help or --version; settings are environment variables", err)
	case *showVersion:
		_, err := fmt.Fprintln(stdout, "pqd", version())
		return err
	}

	s, err := loadSettings()
	if err != nil {
		return err
	}
	switch {
	case len(args) == 2 && args[0] == "backup":
		return backup(ctx, s, args[1], stdout)
	case len(args) == 1 && args[0] == "check":
		return check(ctx, s, newLog(s, stderr), stdout)
	case len(args) == 1 && args[0] == "init":
		return initStore(ctx, s, newLog(s, stderr))
	case len(args) == 2 && args[0] == "salvage":
		return salvage(ctx, s, args[1], newLog(s, stderr), stdout)
	case len(args) > 0:
		return usagef("found the arguments %q: expected none, backup <directory>, check, init, or salvage <directory>; settings are environment variables, see pqd --help", args)
	}
	d := &daemon{settings: s, log: newLog(s, stderr), start: time.Now(), cpus: runtime.GOMAXPROCS(0), metrics: prometheus.NewRegistry(), lameDuck: make(chan struct{})}
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), d.health.metric())
	for _, name := range unknownVariables(os.Environ()) {
		d.log.Warn("unknown setting: pqd --help lists all settings", "variable", name)
	}
	warnOfOpenSecrets(s.NATS, d.log)
	err = d.serve(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // asked to stop before it was ready
	}
	return err
}

// parseArgs reads the flags before and behind the first argument, and returns the
// arguments.
func parseArgs(flags *flag.FlagSet, args []string) ([]string, error) {
	if err := flags.Parse(args); err != nil || flags.NArg() == 0 {
		return nil, err
	}
	command := flags.Arg(0)
	err := flags.Parse(flags.Args()[1:])
	return append([]string{command}, flags.Args()...), err
}

// daemon is what the parts of pqd have in common.
type daemon struct {
	settings settings
	log      *slog.Logger
	start    time.Time
	cpus     int // that Go may use
	metrics  *prometheus.Registry
	health   health
	damage   damage
	store    atomic.Pointer[fdbpq.Store] // the latest one of this process
	embedded *server.Server              // nil when NATS_URL is set
	lameDuck chan struct{}               // closed when the embedded server has announced that it stops
	nc       atomic.Pointer[nats.Conn]
}

// serve starts the parts of pqd, each on top of the one before, and stops them in
// reverse order. The bridge answers the requests that it has received, then its
// connection closes, and the store closes last.
func (d *daemon) serve(ctx context.Context) (err error) {
	down := func(what string, stop func() error) {
		if failure := stop(); failure != nil {
			err = errors.Join(err, fmt.Errorf("%s: %w", what, failure))
		}
	}

	// Wrong settings are found before anything starts.
	login, err := loginOptions(d.settings.NATS)
	if err != nil {
		return err
	}
	embedded, err := embeddedSettings(d.settings)
	if err != nil {
		return err
	}

	hangups, forgetHangups := d.hangups()
	defer forgetHangups()
	tracer, stopTracing, err := startTracing(ctx, d.log)
	if err != nil {
		return err
	}
	defer stopTracing()

	if !d.settings.shared() {
		db, err := d.open(ctx)
		if err != nil {
			return err
		}
		defer down("close the store", db.Close)
		if embedded, is := db.(*local.DB); is {
			defer down("close the socket for backups", startControl(d.settings.Store.place, embedded, d.log).stop)
		}
		if err := d.openQueues(ctx, db); err != nil {
			return err
		}
	}

	url, reaching := d.settings.NATS.URL, []nats.Option(nil)
	if url == "" {
		if d.embedded, err = embedded.start(d.log); err != nil {
			return err
		}
		defer down("stop the embedded NATS server", func() error {
			d.embedded.Shutdown()
			d.embedded.WaitForShutdown()
			return nil
		})
		announced := sync.OnceFunc(func() { close(d.lameDuck) }) // a server may say it again
		reaching = []nats.Option{
			nats.InProcessServer(&pipeDialer{server: d.embedded}),
			// No other client connects at the same time, and there is no network to fail.
			nats.ReconnectWait(pipeReconnectWait),
			nats.ReconnectJitter(0, 0),
			nats.ReconnectHandler(func(*nats.Conn) { d.log.Info("reconnected to NATS", "server", "embedded") }),
			nats.LameDuckModeHandler(func(*nats.Conn) { announced() }),
		}
	}

	pages := routes(&d.health, d.metrics, d.varz, d.settings.HTTPHosts)
	if d.settings.Profile {
		serveProfiles(pages, d.settings.HTTPHosts)
	}
	web, err := startHTTP(d.settings.HTTP, pages, d.log)
	if err != nil {
		return err
	}
	defer down("stop the HTTP server", web.stop)

	lost := make(chan error, 1)
	options := slices.Concat(bridge.ConnectOptions(d.log), login, reaching, []nats.Option{
		nats.Name("pqd"),
		nats.RetryOnFailedConnect(false), // connect does that, and tells what will pass from what will not
		nats.ClosedHandler(func(nc *nats.Conn) { lost <- nc.LastError() }),
	})
	nc, err := connect(ctx, url, options, d.log)
	if err != nil {
		return err
	}
	d.nc.Store(nc)
	defer func() {
		nc.SetDisconnectErrHandler(nil) // this one is no news
		nc.Close()
	}()

	own := []func() (uint64, error){nc.GetClientID}
	var logNC *nats.Conn
	if d.settings.shared() {
		if logNC, err = d.logConnection(ctx, login); err != nil {
			return err
		}
		defer logNC.Close()
		own = append(own, logNC.GetClientID)
	}

	if d.embedded != nil {
		slow := newSlowClients(d.embedded, own, unreadBudget(debug.SetMemoryLimit(-1)), d.log)
		d.metrics.MustRegister(slow.closed)
		looking, stopLooking := context.WithCancel(context.WithoutCancel(ctx))
		var looked sync.WaitGroup
		looked.Go(func() { slow.watch(looking) })
		defer looked.Wait()
		defer stopLooking()
	}

	watching, stopWatching := context.WithCancel(ctx)
	var watched sync.WaitGroup
	defer watched.Wait()
	defer stopWatching()
	settled := make(chan struct{}) // closed when pqd is ready
	var drainBridge func(context.Context) error
	if d.settings.shared() {
		m, err := d.startMember(nc, logNC, tracer)
		if err != nil {
			return err
		}
		drainBridge = m.stop
		d.metrics.MustRegister(memberMetrics{m.db})
		d.health.member(m.ready, m.role)
		watched.Go(func() {
			if m.awaitReady(watching, d.log) {
				close(settled)
			}
		})
	} else {
		// ctx bounds the start alone: the bridge serves until it is drained.
		b, err := bridge.Start(ctx, nc, d.store.Load(), d.bridgeOptions(tracer))
		if err != nil {
			return err
		}
		drainBridge = b.Drain
		d.metrics.MustRegister(b.Collector())
		d.health.serving(b.Ready)
		close(settled)
	}
	watched.Go(func() { d.warnOfRights(watching, nc) })

	for ended := false; !ended; {
		select {
		case <-settled:
			settled = nil
			d.log.Info("ready", "nats", d.advertised(nc), "http", web.url(), "store", d.settings.Store.String(),
				"prefix", string(d.settings.Prefix), "version", version())
			continue
		case <-hangups:
			d.reload()
			continue
		case <-ctx.Done():
		case err = <-web.failed:
		case err = <-lost:
			err = fmt.Errorf("the connection to NATS was closed for good: %w", err)
		}
		ended = true
	}
	d.health.stop()
	d.log.Info("stopping")
	read, cancel := context.WithTimeout(context.WithoutCancel(ctx), readLimit)
	defer cancel()
	drain, cancel := context.WithTimeout(read, drainLimit)
	defer cancel()
	if d.settings.shared() {
		// Another pqd serves the clients of this one before they have to go.
		down("hand over", func() error { return drainBridge(drain) })
	}
	if d.embedded != nil {
		tell, cancel := context.WithTimeout(drain, tellLimit)
		enterLameDuck(tell, d.embedded, d.lameDuck)
		cancel()
	}
	if !d.settings.shared() {
		down("drain the bridge", func() error { return drainBridge(drain) })
	}
	if d.embedded != nil {
		down("wait for clients to read", func() error { return d.awaitRead(read) })
	}
	return err
}

// open opens a store that belongs to this process alone, or to FoundationDB.
func (d *daemon) open(ctx context.Context) (kv.DB, error) {
	db, numbers, err := openStore(ctx, d.settings, d.log)
	if err != nil {
		return nil, err
	}
	if numbers != nil {
		d.metrics.MustRegister(numbers)
	}
	return db, nil
}

// openQueues opens the queues in the store.
func (d *daemon) openQueues(ctx context.Context, db kv.DB) error {
	embedded, isEmbedded := db.(*local.DB)
	if isEmbedded {
		addSpareProcessors()
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

// bridgeOptions are those of each bridge of this process.
func (d *daemon) bridgeOptions(tracer trace.Tracer) bridge.Options {
	return bridge.Options{
		Prefix:    string(d.settings.Prefix),
		Version:   version(),
		StoreName: d.settings.Store.String(),
		Exclusive: d.settings.Store.engine == "local",
		Damage:    d.damage.describe,
		Logger:    d.log,
		Tracer:    tracer,

		ReplySubjects: d.settings.Replies,
	}
}

// awaitRead lets clients read what they were answered.
func (d *daemon) awaitRead(ctx context.Context) error {
	behind, err := awaitRead(ctx, d.embedded)
	if behind > 0 {
		d.log.Warn("closing connections whose clients did not read their answers in time", "connections", behind)
	}
	return err
}

// advertised is the address for clients.
func (d *daemon) advertised(nc *nats.Conn) string {
	if d.embedded != nil {
		return d.embedded.ClientURL()
	}
	return nc.ConnectedUrlRedacted()
}
