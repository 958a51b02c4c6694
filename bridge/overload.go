package bridge

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// gate counts the requests in flight and refuses a request beyond [Limits].
// Settlements are counted apart: they have a limit of their own, and are accepted for
// longer when the bridge shuts down.
type gate struct {
	limits      Limits
	work        flight
	settlements flight
	bytes       atomic.Int64
	fullBytes   *failure.Failure
	draining    atomic.Bool
}

// flight counts requests in flight.
type flight struct {
	n     atomic.Int64
	empty chan struct{}    // gets a value when the last one leaves
	full  *failure.Failure // refuses a request beyond the limit; made once, because such requests are many
}

func newGate(l Limits) *gate {
	g := &gate{limits: l}
	g.work.empty = make(chan struct{}, 1)
	g.settlements.empty = make(chan struct{}, 1)
	g.fullBytes = failure.Newf(429, "too many bytes in flight: this bridge takes %d", l.Bytes)
	g.fullBytes.Reason = protocol.ReasonBusy
	for _, v := range []*verb{verbPush, verbAck} {
		of, most := g.flight(v)
		of.full = failure.Newf(429, "too many requests in flight: this bridge takes %d", most)
		of.full.Reason = protocol.ReasonBusy
	}
	return g
}

func (g *gate) flight(v *verb) (of *flight, most int) {
	if v == verbAck {
		return &g.settlements, g.limits.Requests * settleFactor
	}
	return &g.work, g.limits.Requests
}

// enter counts a request, or returns why it is refused.
func (g *gate) enter(r *request) *failure.Failure {
	of, most := g.flight(r.verb)
	n, size := of.n.Add(1), g.bytes.Add(r.counted)
	switch {
	case n > int64(most):
		g.leave(r)
		return of.full
	case size > g.limits.Bytes && size > r.counted:
		g.leave(r)
		return g.fullBytes
	}
	return nil
}

// force counts a request without regard to the limits.
func (g *gate) force(r *request) {
	of, _ := g.flight(r.verb)
	of.n.Add(1)
	g.bytes.Add(r.counted)
}

// leave counts a request as done. Further calls have no effect.
func (g *gate) leave(r *request) {
	if r.counted < 0 {
		return
	}
	g.bytes.Add(-r.counted)
	r.counted = -1
	of, _ := g.flight(r.verb)
	if of.n.Add(-1) == 0 && g.closed() {
		select {
		case of.empty <- struct{}{}:
		default:
		}
	}
}

func (g *gate) close()       { g.draining.Store(true) }
func (g *gate) closed() bool { return g.draining.Load() }

// drain returns when no request is in flight. It may be called after close only.
func (f *flight) drain(ctx context.Context) error {
	for f.n.Load() > 0 {
		select {
		case <-f.empty:
		case <-ctx.Done():
			return fmt.Errorf("drain: %d not answered: %w", f.n.Load(), ctx.Err())
		}
	}
	return nil
}
