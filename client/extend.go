package client

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Hold extends the item's lease repeatedly until stop is called or the item is settled.
// The returned context is for the work on the item: it ends with ctx, with stop, or when
// the lease is lost, with [ErrLeaseLost] as its cause.
//
//	ctx, stop := item.Hold(ctx)
//	defer stop()
func (i *Item) Hold(ctx context.Context) (held context.Context, stop context.CancelFunc) {
	held, cancel := context.WithCancelCause(ctx)
	stop = func() { cancel(context.Canceled) }
	if i.ack == "" {
		cancel(ErrNotLeased)
		return held, stop
	}
	go i.extendUntil(held, cancel)
	return held, stop
}

// extensionsPerLease is how often a lease is extended within its length: a lost message or
// a restart of the bridge must not end it.
const extensionsPerLease = 3

// The interval between two extensions when only the bridge knows how long the
// lease is: the time that is left by this machine's clock may be wrong.
const (
	minExtendInterval = 300 * time.Millisecond
	maxExtendInterval = 5 * time.Second
)

// extendUntil extends the lease until ctx ends, and cancels ctx when the lease is
// lost.
func (i *Item) extendUntil(ctx context.Context, cancel context.CancelCauseFunc) {
	every, term := i.extendInterval(time.Now())
	timer := time.NewTimer(every)
	defer timer.Stop()
	for lost := time.Now().Add(term); ; {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		// An answer that comes after the end of the lease is of no use.
		sent := time.Now()
		attempt, done := context.WithDeadline(ctx, lost)
		err := i.Extend(attempt)
		done()
		switch {
		case err == nil:
			lost = sent.Add(term)
		case errors.Is(err, ErrSettled), i.isSettled(), ctx.Err() != nil:
			return
		case errors.Is(err, ErrLeaseLost):
			cancel(err)
			return
		case !time.Now().Before(lost):
			cancel(fmt.Errorf("%w: it could not be extended in time: %w", ErrLeaseLost, err))
			return
		}
		timer.Reset(every)
	}
}

// extendInterval returns how long to wait between two extensions, and how long
// after the last one the lease counts as lost.
func (i *Item) extendInterval(now time.Time) (every, term time.Duration) {
	parts := time.Duration(i.queue.client.patience.extend)
	if i.term > 0 {
		return i.term / parts, i.term
	}
	seems := i.LeaseExpires().Sub(now)
	every = min(max(seems/parts, minExtendInterval), maxExtendInterval)
	return every, max(seems, every*parts)
}
