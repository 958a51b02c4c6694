package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/nats-io/nats.go"
)

// Drain ends the bridge in order: those who wait are refused, no more requests
// are taken, those in flight are answered, then the same for settlements, and
// at last everything is on its way to the server. When ctx ends first, what is
// left is cut off. The connection and the store stay open. To drain again does
// nothing more.
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
	b.gate.close()
	b.service.stop()
	b.waits.close()
	err := errors.Join(
		b.drain(ctx, b.subs.requests, &b.gate.work),
		b.drain(ctx, b.subs.acks, &b.gate.settlements),
	)
	b.unsubscribe()
	b.keeper.stop()
	b.events.close()
	if flushErr := b.nc.FlushWithContext(ctx); flushErr != nil {
		err = errors.Join(err, fmt.Errorf("flush: %w", flushErr))
	}
	return err
}

// drain takes no more messages from the server, hands those that are here to
// their lanes, and waits until all are answered.
func (b *Bridge) drain(ctx context.Context, sub *nats.Subscription, f *flight) error {
	if err := sub.Drain(); err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	if err := b.nc.FlushWithContext(ctx); err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	// Everything that the server has sent is in the subscriptions now.
	delivered := make(chan struct{})
	if err := b.nc.Barrier(func() { close(delivered) }); err != nil {
		return fmt.Errorf("drain %s: %w", sub.Subject, err)
	}
	select {
	case <-delivered:
	case <-ctx.Done():
		return fmt.Errorf("drain %s: %w", sub.Subject, ctx.Err())
	}
	if err := f.wait(ctx); err != nil {
		return fmt.Errorf("drain %s: %d not answered: %w", sub.Subject, f.n.Load(), err)
	}
	return nil
}
