package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/commands"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/node"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
)

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
