package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// Hold extends the item's lease repeatedly until stop is called or the item is settled.
// The returned context is for the work on the item: it ends with ctx, with stop, or when
// the lease is lost, with [ErrLeaseLost] as its cause.
//
//	ctx, stop := item.Hold(ctx)
//	defer stop()
func (i *Item) Hold(ctx context.Context) (held context.Context, stop context.CancelFunc) {
	return i.hold(ctx, nil)
}

// hold is Hold, and hears bells.
func (i *Item) hold(ctx context.Context, bells *bells) (held context.Context, stop context.CancelFunc) {
	held, cancel := context.WithCancelCause(ctx)
	if !i.Leased() {
		cancel(ErrNotLeased)
		return held, func() {}
	}
	now := time.Now()
	h := &hold{item: i, ctx: held, cancel: cancel}
	h.every, h.term = i.extendInterval(now)
	h.lost = now.Add(h.term)
	h.wait()
	h.leave = bells.enter(h)
	return held, h.stop
}

// hold is a lease that is extended. Between two extensions it is only a timer, so a handler that ends at once costs
// little.
type hold struct {
	item        *Item
	ctx         context.Context
	cancel      context.CancelCauseFunc
	every, term time.Duration
	lost        time.Time // the time at which the lease is lost unless it is extended before

	leave func() // the bells

	mu        sync.Mutex
	timer     *time.Timer
	extending bool
	hurries   bool                // somebody has rung since the last extension began
	hurried   time.Time           // when an extension last began because somebody had rung
	rung      *protocol.LostEvent // what the last bell has told of this lease
	asked     *protocol.LostEvent // that, when the last extension began
}

// isOf reports whether a bell is about this lease.
func (h *hold) isOf(e *protocol.LostEvent) bool { return uint64(e.Fence) == h.item.Fence }

// ring extends the lease as soon as it may.
func (h *hold) ring(e *protocol.LostEvent) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if e != nil {
		h.rung = e
	}
	if h.hurries = true; h.timer != nil && !h.extending {
		h.timer.Reset(min(h.every, h.soon()))
	}
}

// soon is when a bell may extend the lease.
func (h *hold) soon() time.Duration { return max(0, ringEvery-time.Since(h.hurried)) }

// wait sets the timer of the next extension.
func (h *hold) wait() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.extending = false; h.ctx.Err() != nil {
		return
	}
	after := h.every
	if h.hurries {
		after = min(after, h.soon())
	}
	if h.timer != nil {
		h.timer.Stop() // a bell may have wound it once more
	}
	h.timer = time.AfterFunc(after, h.extend)
}

// begin reports whether an extension begins: a bell that comes as the time is over begins none.
func (h *hold) begin() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.ctx.Err() != nil || h.extending {
		return false
	}
	if h.extending = true; h.hurries {
		h.hurries, h.hurried = false, time.Now()
	}
	h.asked = h.rung
	return true
}

// holds notes that the lease lasts: what has rung before that was asked was not true.
func (h *hold) holds() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rung == h.asked {
		h.rung = nil
	}
}

// why says why the lease is lost.
func (h *hold) why(err error) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return whyLost(err, h.rung)
}

func (h *hold) stop() {
	h.cancel(context.Canceled)
	h.leave()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.timer != nil {
		h.timer.Stop()
	}
}

// extensionsPerLease is how often a lease is extended within its length: a lost message or
// a restart of the bridge must not end it.
const extensionsPerLease = 3

// Bounds of the interval between two extensions if only the bridge knows the length of the lease: by this machine's
// clock the time that is left may be wrong.
const (
	minExtendInterval = 300 * time.Millisecond
	maxExtendInterval = 5 * time.Second
)

// extend extends the lease, and cancels the context when it is lost.
func (h *hold) extend() {
	if !h.begin() {
		return
	}
	// An answer that comes after the end of the lease is of no use.
	sent := time.Now()
	attempt, done := context.WithDeadline(h.ctx, h.lost)
	err := h.item.Extend(attempt)
	done()
	switch {
	case err == nil:
		h.lost = sent.Add(h.term)
		h.holds()
	case errors.Is(err, ErrSettled), h.item.isSettled(), h.ctx.Err() != nil:
		return
	case errors.Is(err, ErrLeaseLost):
		h.cancel(h.why(err))
		return
	case !time.Now().Before(h.lost):
		h.cancel(fmt.Errorf("%w: it could not be extended in time: %w", ErrLeaseLost, err))
		return
	}
	h.wait()
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
