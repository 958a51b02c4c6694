package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
)

// Drain ends the bridge in order. It refuses the waiting pops, unsubscribes from
// requests and answers the requests in flight. Then it does the same for settlements,
// and flushes the connection. When ctx ends first, the remaining requests are not
// answered. The connection and the store stay open. A second call does nothing more.
func (b *Bridge) Drain(ctx context.Context) error {
	b.drained.once.Do(func() { b.drained.err = b.end(ctx) })
	return b.drained.err
}

// drained is how the bridge ended.
type drained struct {
	once sync.Once
	err  error
}

func (b *Bridge) end(ctx context.Context) error {
	b.peers.Standby.Stop()
	b.gate.close()
	b.shedding.endServing()
	b.shedding.mu.Lock()
	defer b.shedding.mu.Unlock()
	b.service.stop()
	b.waiting.Close(errShutdown)
	err := errors.Join(
		b.drain(ctx, b.subs.requests, &b.gate.work),
		b.endSignals(ctx),
		b.drain(ctx, b.subs.acks, &b.gate.settlements),
	)
	b.unsubscribe()
	b.lanes.stop()
	b.peers.Turns.Stop()
	b.interest.stop()
	b.keeper.stop()
	b.events.close()
	return errors.Join(err, b.flush(ctx))
}

// drain ends a subscription, hands the messages that have arrived to their lanes,
// and waits until all are answered.
func (b *Bridge) drain(ctx context.Context, sub *nats.Subscription, f *flight) error {
	var err error
	if sub != nil { // nil on standby
		if err = b.endSubscription(ctx, sub); err != nil {
			err = fmt.Errorf("drain %s: %w", sub.Subject, err)
		}
	}
	if waitErr := f.wait(ctx); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("drain: %d not answered: %w", f.n.Load(), waitErr))
	}
	return err
}

// endSignals ends the subscription to signals. It has to end before the one to
// settlements, which it matches: while it lasts, the server does not answer a
// settlement that there are no responders.
func (b *Bridge) endSignals(ctx context.Context) error {
	if b.subs.signals == nil {
		return nil
	}
	err := b.endSubscription(ctx, b.subs.signals)
	b.subs.signals = nil
	return err
}

// endSubscription ends a subscription and waits until all messages that the server
// has sent for it are handed to lanes.
func (b *Bridge) endSubscription(ctx context.Context, sub *nats.Subscription) error {
	if err := sub.Drain(); err != nil && !errors.Is(err, nats.ErrBadSubscription) { // it may have ended
		return err
	}
	if err := b.flush(ctx); err != nil {
		return err
	}
	if sub.Type() == nats.ChanSubscription {
		return b.arrivals.wait(ctx)
	}
	handed := make(chan struct{})
	if err := b.nc.Barrier(func() { close(handed) }); err != nil {
		return err
	}
	select {
	case <-handed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// flushPatience bounds the wait for a server that does not answer. When half of the
// time until the deadline is longer, the wait takes that: the server's machine may be
// busy, and the rest of the shutdown needs the other half.
const flushPatience = 2 * time.Second

// flush waits until the server has received all messages. Without a connection it
// does nothing.
func (b *Bridge) flush(ctx context.Context) error {
	if !b.nc.IsConnected() {
		return nil
	}
	patience := flushPatience
	if end, bounded := ctx.Deadline(); bounded {
		patience = max(patience, time.Until(end)/2)
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("flush: %w", err)
	}
	return nil
}
