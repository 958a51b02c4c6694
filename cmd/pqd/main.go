// Command pqd is the daemon. It answers requests for priority queues on NATS subjects and keeps the queues in a
// store. Without settings it runs a NATS server on 127.0.0.1:4222 and keeps its data in ./pq-data.
//
// It logs one line "ready" when it begins to answer. At SIGTERM and SIGINT it stops in order: it answers the
// requests that it has received. A second signal ends it at once. At SIGHUP it reads the files of PQ_NATS_CONFIG,
// PQ_REMOTES and PQ_TENANTS again.
//
// The exit code is 0 after a stop, 2 when the settings are wrong, and 1 after any other failure. A failed disk of the
// store ends pqd at once, with 1, and a panic by SIGABRT.
//
// Where things are: the daemon here starts parts and stops them. The packages below hold the parts: settings and process
// of pqd itself; broker and link, its NATS server and connections; store and room, how a store opens and what is refused
// when its disk is full; node, a pqd that keeps a store together with others, and election, which replaces a leader of their
// log; web and health, what it has over HTTP; commands, what pqd does without serving.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/kelseyhightower/envconfig"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/commands"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/node"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

func main() {
	process.AbortOnPanic()
	syscall.Umask(int(process.NotOthers)) // for all files of the store, of backups and of the NATS server
	ctx := untilSignal()
	ballast := process.NewBallast()
	done := make(chan error, 1)
	go func() { done <- run(ctx, os.Args[1:], os.Stdout, os.Stderr) }()
	code := exitCode(process.Await(ctx, done, process.ShutdownLimit))
	runtime.KeepAlive(ballast)
	os.Exit(code)
}

// run is the program. It returns after ctx has ended and all parts have stopped, or after a
// failure.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("pqd", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are returned and reported once
	showVersion := flags.Bool("version", false, "")
	consent := commands.RecoverFlags(flags)
	args, err := parseArgs(flags, args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return printUsage(stdout)
	case err != nil:
		return settings.Usagef("%w: expected --help or --version; settings are environment variables", err)
	case *showVersion:
		_, err := fmt.Fprintln(stdout, "pqd", version())
		return err
	}

	s, err := settings.Load()
	if err != nil {
		return err
	}
	if recovers := len(args) == 1 && args[0] == "recover"; !recovers && *consent != (commands.RecoverRequest{}) {
		return settings.Usagef("found --yes, --from or --without: expected them with pqd recover")
	}
	switch {
	case len(args) == 2 && args[0] == "backup":
		return commands.Backup(ctx, s, args[1], stdout)
	case len(args) == 1 && args[0] == "check":
		return commands.Check(ctx, s, process.NewLog(s, stderr), stdout)
	case len(args) == 1 && args[0] == "init":
		return node.Init(ctx, s, version(), process.NewLog(s, stderr))
	case len(args) == 1 && args[0] == "recover":
		return commands.Recover(ctx, s, *consent, stdout)
	case len(args) == 1 && args[0] == "probe":
		return commands.Probe(ctx, s)
	case len(args) == 2 && args[0] == "restore":
		return commands.Restore(s, args[1], stdout)
	case len(args) == 2 && args[0] == "salvage":
		return commands.Salvage(ctx, s, args[1], process.NewLog(s, stderr), stdout)
	case len(args) > 0:
		return settings.Usagef("found the arguments %q: expected none, backup <directory>, check, init, probe, recover, restore <directory>, or salvage <directory>; settings are environment variables, see pqd --help", args)
	}
	d := &daemon{settings: s, log: process.NewLog(s, stderr), metrics: prometheus.NewRegistry()}
	d.metrics.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), d.health.Metric(), buildInfo())
	for _, name := range settings.Unknown(os.Environ()) {
		d.log.Warn("unknown setting: pqd --help lists all settings", "variable", name)
	}
	process.WarnOfOpenSecrets(s, d.log)
	s.Unprotected.Warn(d.log)
	s.MinFree.Warn(d.log)
	err = d.serve(ctx)
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // asked to stop before it was ready
	}
	if err == nil {
		d.log.Info("stopped")
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

const usageHead = `pqd answers requests for priority queues on NATS subjects.

usage: pqd [--help] [--version]
       pqd backup <directory>   copies the store, or the node's copy, whether pqd runs or not
       pqd check                checks a store or a node's copy that is not in use for damage
       pqd init                 makes the store of PQ_STORE=jetstream:<name> in a NATS cluster that has none
       pqd probe                asks the pqd that runs with these settings whether it is ready
       pqd recover [--yes] [--from <node>] [--without <node>,…]
                                begins a new log with a node's copy when the log of several pqd has lost entries;
                                without --yes it says what would be lost, and does nothing
       pqd restore <directory>  has a backup take the place of the store of a pqd that does not run
       pqd salvage <directory>  writes the readable items of a damaged store to files for pq import

Settings are environment variables. With none, pqd runs a NATS server of its own
and keeps the queues in ./pq-data.

`

const usageRows = `{{range .}}{{usage_key .}}	{{usage_default .}}	{{usage_description .}}
{{end}}`

func printUsage(w io.Writer) error {
	if _, err := io.WriteString(w, usageHead); err != nil {
		return err
	}
	table := tabwriter.NewWriter(w, 0, 8, 3, ' ', 0)
	if _, err := io.WriteString(table, "VARIABLE\tDEFAULT\tMEANING\n"); err != nil {
		return err
	}
	for _, spec := range []any{&settings.Settings{}, &settings.NATS{}} {
		if err := envconfig.Usagef("", spec, table, usageRows); err != nil {
			return err
		}
	}
	return table.Flush()
}

// exitCode reports err and turns it into the code of the process. After a failed write to the disk of the store pqd does
// not come here: store.GiveUp ends it at once.
func exitCode(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintf(os.Stderr, "pqd: %v\n", err)
	if errors.As(err, new(settings.UsageError)) {
		return 2
	}
	return 1
}

// release is set by the linker in released builds: -X main.release=1.2.3.
var release string

// version is the version of this build, always in the form that NATS services
// must have, MAJOR.MINOR.PATCH with an optional suffix.
func version() string {
	if release != "" {
		return strings.TrimPrefix(release, "v")
	}
	if info, ok := debug.ReadBuildInfo(); ok && strings.HasPrefix(info.Main.Version, "v") {
		return strings.TrimPrefix(info.Main.Version, "v")
	}
	return "0.0.0-devel"
}

// buildInfo is the metric that says which build this is.
func buildInfo() prometheus.Collector {
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "pq_build_info", Help: "1, with the version of pqd and of Go.",
		ConstLabels: prometheus.Labels{"version": version(), "goversion": runtime.Version()},
	})
	build.Set(1)
	return build
}

// untilSignal returns a context that ends with the first signal to stop. The second signal ends the process at
// once, as if pqd handled none.
func untilSignal() context.Context {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release)
	return ctx
}

// hangups delivers SIGHUP until stop is called. Operators send SIGHUP when they have changed a file, and units of systemd
// send it at every reload. It never stops pqd: the sender expects pqd to go on.
func hangups() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}
