package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"
)

// contender is a queue under faults: how it is used, and what is done to it.
type contender struct {
	name    string
	only    string // the fault that it is for; "": all
	system  string // the server's
	start   func(context.Context, *site, *server) error
	stop    syscall.Signal                               // that ends its server in order
	prepare func(ctx context.Context, addr string) error // fails until the server serves
	connect func(ctx context.Context, addr string) (jobs, error)
	cut     func(ctx context.Context, addr string) error              // ends the connections of replicas
	idle    func(ctx context.Context, addr string) (io.Closer, error) // a connection that does nothing
	hold    func(ctx context.Context, addr string) error              // holds what it can until ctx ends
	scan    func(ctx context.Context, addr string) error              // reads the queue again and again until ctx ends
}

const nameRiver = "River"

var contenders = []*contender{
	{
		name: namePQD, system: namePQD, start: startWatchedPQD, stop: syscall.SIGTERM, prepare: prepareJobs,
		connect: func(ctx context.Context, addr string) (jobs, error) { return connectJobs(ctx, addr) },

		cut: kickReplicas, idle: idleOnNATS, hold: holdLeases, scan: scanQueue,
	},
	{
		name: "pqd, ReconnectWait(100ms)", only: "chaos_pg_backend_kill",
		system: namePQD, start: startWatchedPQD, stop: syscall.SIGTERM, prepare: prepareJobs,
		connect: func(ctx context.Context, addr string) (jobs, error) {
			return connectJobs(ctx, addr, nats.ReconnectWait(100*time.Millisecond))
		},
		cut: kickReplicas, idle: idleOnNATS, hold: holdLeases, scan: scanQueue,
	},
	{
		name: nameRiver, system: namePostgres, start: startSharedPostgres, stop: syscall.SIGINT, prepare: prepareRiver, connect: connectRiver,
		cut: terminateBackends, idle: idleOnPostgres, hold: holdTransaction, scan: scanTable,
	},
}

func contenderNamed(name string) (*contender, error) {
	for _, c := range contenders {
		if c.name == name {
			return c, nil
		}
	}
	return nil, fmt.Errorf("found the system %q: expected one of this program", name)
}

// closer makes a Closer of a function.
type closer func() error

func (c closer) Close() error { return c() }

// together runs n of the same until ctx ends, and returns what ended any of them before.
func together(ctx context.Context, n int, run func(context.Context) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = run(ctx) })
	}
	all.Wait()
	return errors.Join(errs...)
}

// pause waits, and less if ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
