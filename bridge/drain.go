package bridge

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

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
	b.peers.Standby.Stop()
	b.gate.close()
	b.intake.end()
	b.intake.mu.Lock()
	defer b.intake.mu.Unlock()
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
	b.presence.stop()
	b.keeper.stop()
	b.events.close()
	return errors.Join(err, b.flush(ctx))
}

// drain takes no more messages from the server, hands those that are here to
// their lanes, and waits until all are answered.
func (b *Bridge) drain(ctx context.Context, sub *nats.Subscription, f *flight) error {
	var err error
	if sub != nil { // else the bridge is on standby
		if err = b.receiveRest(ctx, sub); err != nil {
			err = fmt.Errorf("drain %s: %w", sub.Subject, err)
		}
	}
	if waitErr := f.wait(ctx); waitErr != nil {
		err = errors.Join(err, fmt.Errorf("drain: %d not answered: %w", f.n.Load(), waitErr))
	}
	return err
}

// endSignals hears no more of items that nobody received. It has to come before
// the end of the settlements: a signal's subscription matches them too, and as
// long as it is there the server does not say that nobody takes them.
func (b *Bridge) endSignals(ctx context.Context) error {
	if b.subs.signals == nil {
		return nil
	}
	err := b.receiveRest(ctx, b.subs.signals)
	b.subs.signals = nil
	return err
}

// receiveRest ends a subscription and waits until all that the server has sent
// for it is with the lanes.
func (b *Bridge) receiveRest(ctx context.Context, sub *nats.Subscription) error {
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

// flushPatience bounds the wait for a server that does not answer: what is
// done already should not take the rest of the time there is. A server on a busy
// machine gets half of that time.
const flushPatience = 2 * time.Second

// flush waits until the server has got everything, unless there is none.
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
