package bridge

import (
	"context"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// Limits bound what a bridge holds at a time. Zero stands for the default.
type Limits struct {
	// Requests in flight. A busy client that sends 10,000 pushes in a row
	// without waiting fits; beyond, answers would come later than clients wait.
	// Settlements, which free what others hold, have four times as many.
	Requests int

	// Bytes of requests in flight: with the default, eight of the largest
	// payloads, or 4 KiB for each of the requests.
	Bytes int64

	// Waiters are pops waiting for something to arrive. Each costs about a
	// kilobyte, but no goroutine and no polling.
	Waiters int

	// BatchRequests and BatchBytes bound one transaction of a lane. More
	// requests would not make it cheaper a request, only slower to answer; the
	// bytes stay well below what a transaction may have.
	BatchRequests int
	BatchBytes    int
}

// The default limits.
const (
	DefaultRequests      = 16_384
	DefaultBytes         = 64 << 20
	DefaultWaiters       = 10_000
	DefaultBatchRequests = 512
	DefaultBatchBytes    = 1 << 20
)

// settleFactor is how many more settlements than other requests may be in
// flight: one that is refused comes back as a redelivery, which costs more.
const settleFactor = 4

func (l Limits) withDefaults() Limits {
	if l.Requests <= 0 {
		l.Requests = DefaultRequests
	}
	if l.Bytes <= 0 {
		l.Bytes = DefaultBytes
	}
	if l.Waiters <= 0 {
		l.Waiters = DefaultWaiters
	}
	if l.BatchRequests <= 0 {
		l.BatchRequests = DefaultBatchRequests
	}
	l.BatchRequests = min(l.BatchRequests, fdbpq.MaxBatch)
	if l.BatchBytes <= 0 {
		l.BatchBytes = DefaultBatchBytes
	}
	return l
}

// gate counts what is in flight and refuses what is too much. Settlements are
// counted apart: they have their own limit, and are taken for longer when the
// bridge shuts down.
type gate struct {
	limits      Limits
	work        flight
	settlements flight
	bytes       atomic.Int64
	fullBytes   *failure
	draining    atomic.Bool
}

// flight counts requests in flight.
type flight struct {
	n     atomic.Int64
	empty chan struct{} // gets a value when the last one leaves
	full  *failure      // for those beyond the limit; made once, for there are many when there are any
}

func newGate(l Limits) *gate {
	g := &gate{limits: l}
	g.work.empty = make(chan struct{}, 1)
	g.settlements.empty = make(chan struct{}, 1)
	g.fullBytes = failf(429, "too many bytes in flight: this bridge takes %d", l.Bytes)
	g.fullBytes.reason = protocol.ReasonBusy
	for _, v := range []*verb{verbPush, verbAck} {
		of, most := g.flight(v)
		of.full = failf(429, "too many requests in flight: this bridge takes %d", most)
		of.full.reason = protocol.ReasonBusy
	}
	return g
}

func (g *gate) flight(v *verb) (of *flight, most int) {
	if v == verbAck {
		return &g.settlements, g.limits.Requests * settleFactor
	}
	return &g.work, g.limits.Requests
}

// enter lets a request in, unless it would be too much; then it says what is.
func (g *gate) enter(r *request) *failure {
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

// force lets a request in, whatever there is.
func (g *gate) force(r *request) {
	of, _ := g.flight(r.verb)
	of.n.Add(1)
	g.bytes.Add(r.counted)
}

// leave ends what enter began. It may be called again.
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

// wait waits until nothing of a kind is in flight. Only after close.
func (f *flight) wait(ctx context.Context) error {
	for f.n.Load() > 0 {
		select {
		case <-f.empty:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}
