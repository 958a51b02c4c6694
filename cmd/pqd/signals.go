package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// Operators send SIGHUP when they have changed a file, and units of systemd send it at every reload. It never stops
// pqd: the sender expects pqd to go on.

// untilSignal returns a context that ends with the first signal to stop. The second signal ends the process at
// once, as if pqd handled none.
func untilSignal() context.Context {
	ctx, release := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, release)
	return ctx
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
		d.embedded.reload()
	}
}

// hangups delivers SIGHUP until stop is called.
func hangups() (c <-chan os.Signal, stop func()) {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGHUP)
	return signals, func() { signal.Stop(signals) }
}
