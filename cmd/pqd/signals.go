package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

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
