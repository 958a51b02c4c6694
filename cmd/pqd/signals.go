package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Terminals send SIGHUP when they close, operators when they have changed a
// configuration. When the embedded NATS server has a configuration file, or there are
// remotes or tenants, pqd reads these files again. Otherwise pqd stops as for SIGTERM.

// untilSignal returns a context that ends with the first signal to stop. A second one
// ends the process at once, as if pqd handled none.
func untilSignal() context.Context {
	ctx, release := signal.NotifyContext(context.Background(), stopSignals()...)
	context.AfterFunc(ctx, release)
	return ctx
}

// stopSignals are the signals that stop pqd.
func stopSignals() []os.Signal {
	all := []os.Signal{syscall.SIGINT, syscall.SIGTERM}
	if os.Getenv("PQ_NATS_CONFIG") == "" && os.Getenv("PQ_REMOTES") == "" && os.Getenv("PQ_TENANTS") == "" {
		all = append(all, syscall.SIGHUP)
	}
	return all
}

// reload reads files again that an operator may have changed.
func (d *daemon) reload() {
	if d.settings.Remotes != "" {
		d.remotes.reload()
	}
	if d.settings.Tenants != "" {
		d.tenants.reload()
	}
	if d.settings.NATSConfig != "" {
		d.embedded.reload()
	}
}

// hangups delivers SIGHUP when it means to reload, until stop is called.
func (d *daemon) hangups() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	if d.settings.NATSConfig != "" || d.settings.Remotes != "" || d.settings.Tenants != "" {
		signal.Notify(signals, syscall.SIGHUP)
	}
	return signals, func() { signal.Stop(signals) }
}
