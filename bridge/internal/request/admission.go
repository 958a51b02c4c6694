package request

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// Gate counts the requests in flight and refuses a request beyond its limits.
// Settlements are counted apart: they have a limit of their own, and are accepted for
// longer when the bridge shuts down.
type Gate struct {
	requests    int   // limit of the requests in flight
	mostBytes   int64 // limit of their bytes
	Work        Flight
	Settlements Flight
	bytes       atomic.Int64
	fullBytes   *failure.Failure
	draining    atomic.Bool
}

// Share counts the requests and bytes that one user of a gate, a tenant, has in flight, and has its bounds. 0: no
// bound.
type Share struct {
	Requests, Bytes int64

	n, size, owed atomic.Int64
}

// OwedBytes is how many bytes of a message cost as much as a request.
const OwedBytes = 4 << 10

// Owe counts the cost of an answer beyond one request: further items, and bytes.
func (s *Share) Owe(items, bytes int) {
	if s != nil {
		s.owed.Add(int64(max(0, items-1) + bytes/OwedBytes))
	}
}

// Owed returns the requests owed since the last call.
func (s *Share) Owed() int64 { return s.owed.Swap(0) }

// Idle reports whether it has nothing in flight.
func (s *Share) Idle() bool { return s.n.Load() == 0 }

func (s *Share) add(n, size int64) (over bool) {
	if s == nil {
		return false
	}
	n, size = s.n.Add(n), s.size.Add(size)
	return s.Requests > 0 && n > s.Requests || s.Bytes > 0 && size > s.Bytes
}

// shareFull refuses a request beyond a share.
var shareFull = busy("too many requests or bytes in flight: a tenant has %d%% of what this bridge takes", SharePercent)

// SharePercent is the part of the places of a gate that a tenant may have.
const SharePercent = 25

// Flight counts requests in flight.
type Flight struct {
	n     atomic.Int64
	empty chan struct{}    // gets a value when the last one leaves
	full  *failure.Failure // refuses a request beyond the limit; made once, because such requests are many
	moved atomic.Pointer[failure.Failure]
}

// NewGate returns a gate with these limits of requests in flight, and of their bytes.
func NewGate(requests int, bytes int64) *Gate {
	g := &Gate{requests: requests, mostBytes: bytes}
	g.fullBytes = busy("too many bytes in flight: this bridge takes %d", bytes)
	for _, f := range []*Flight{&g.Work, &g.Settlements} {
		f.empty = make(chan struct{}, 1)
		f.full = busy("too many requests in flight: this bridge takes %d", int64(g.most(f)))
	}
	return g
}

func busy(format string, most int64) *failure.Failure {
	f := failure.Newf(429, format, most)
	f.Reason = protocol.ReasonBusy
	return f
}

// settleFactor is the limit of settlements in flight, in limits of other requests: a
// refused settlement leads to a redelivery, which costs more.
const settleFactor = 4

// most is how many requests may be in flight.
func (g *Gate) most(f *Flight) int {
	if f == &g.Settlements {
		return g.requests * settleFactor
	}
	return g.requests
}

func (g *Gate) flight(v *Verb) *Flight {
	if v.Settles {
		return &g.Settlements
	}
	return &g.Work
}

// Enter counts a request, or returns why it is refused.
func (g *Gate) Enter(r *Request) *failure.Failure {
	of := g.flight(r.Verb)
	n, size := of.n.Add(1), g.bytes.Add(r.counted)
	over := r.Share.add(1, r.counted) && !r.Verb.Settles
	moved := of.moved.Load()
	switch {
	case moved != nil:
		g.Leave(r)
		return moved
	case n > int64(g.most(of)):
		g.Leave(r)
		return of.full
	case size > g.mostBytes && size > r.counted:
		g.Leave(r)
		return g.fullBytes
	case over:
		g.Leave(r)
		return shareFull
	}
	return nil
}

// EnterMore counts the requests of a bundle behind the first one, or returns why the bundle
// is refused.
func (g *Gate) EnterMore(r *Request) *failure.Failure {
	if r.Bundled < 2 {
		return nil
	}
	of := g.flight(r.Verb)
	r.more = int64(r.Bundled) - 1
	if of.n.Add(r.more) > int64(g.most(of)) {
		of.n.Add(-r.more)
		r.more = 0
		return of.full
	}
	r.Share.add(r.more, 0)
	return nil
}

// Force counts a request without regard to the limits.
func (g *Gate) Force(r *Request) {
	of := g.flight(r.Verb)
	of.n.Add(1)
	g.bytes.Add(r.counted)
	r.Share.add(1, r.counted)
}

// Return counts a request that has left, without regard to the limits. It returns false,
// and does not count the request, when the gate was closed.
func (g *Gate) Return(r *Request) bool {
	r.counted = int64(r.Msg.Size())
	g.Force(r)
	if g.Closed() {
		g.Leave(r)
		return false
	}
	return true
}

// Leave counts a request as done. Further calls have no effect.
func (g *Gate) Leave(r *Request) {
	if r.counted < 0 {
		return
	}
	g.bytes.Add(-r.counted)
	r.Share.add(-1-r.more, -r.counted)
	r.counted = -1
	of := g.flight(r.Verb)
	if of.n.Add(-1-r.more) == 0 && g.Closed() {
		select {
		case of.empty <- struct{}{}:
		default:
		}
	}
	if leave := r.OnLeave; leave != nil {
		r.OnLeave = nil
		leave()
	}
}

// Close begins the end of requests: from now on, [Flight.Drain] may be called.
func (g *Gate) Close() { g.draining.Store(true) }

// Closed reports whether the gate was closed.
func (g *Gate) Closed() bool { return g.draining.Load() }

// InFlight is how many requests are being served, and their bytes.
func (g *Gate) InFlight() (work, settlements, bytes int64) {
	return g.Work.n.Load(), g.Settlements.n.Load(), g.bytes.Load()
}

// Refuse refuses the requests that come from now on, for this reason.
func (f *Flight) Refuse(why *failure.Failure) { f.moved.Store(why) }

// Drain returns when no request is in flight. It may be called after close only.
func (f *Flight) Drain(ctx context.Context) error {
	for f.n.Load() > 0 {
		select {
		case <-f.empty:
		case <-ctx.Done():
			return fmt.Errorf("drain: %d not answered: %w", f.n.Load(), ctx.Err())
		}
	}
	return nil
}
