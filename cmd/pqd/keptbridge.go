package main

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/health"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/link"
	"github.com/pqbridge/pqbridge/fdbpq"
)

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
	if err := k.link.Away(); err != nil {
		return health.Waiting(err)
	}
	return k.latest.Load().Ready()
}
