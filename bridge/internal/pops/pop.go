package pops

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/settles"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// pop is a pop, a peek, a +NXT: a pop that acknowledges first, or the request of a [Giver].
type pop struct {
	request.Request
	ask     codec.PopRequest
	peeks   bool               // it leaves the items where they are
	acks    *acknowledgement   // of a +NXT
	gives   Giver              // serves it; nil: the part of its queue does
	place   *waiting.Pop[*pop] // where it waits; nil: it does not
	waited  bool               // its wait is over, and this attempt is its last
	asked   bool               // before this attempt, the server said that the client listened
	gone    bool               // its client has gone
	refused *failure.Failure   // why its transaction failed: it runs again without this pop
	careful bool               // its transaction failed: it gets fewer bytes
	most    int                // so many items fit into an answer; 0: unknown

	// What the transaction found.
	found    []fdbpq.Item
	ready    int64         // ready items behind the last item of found
	leased   time.Duration // how long the items are leased
	confirms bool          // the lease is for the confirmation of a pop for good
	final    bool          // it found nothing, and no repetition will find an item
}

var pool desk.Pool[pop]

// Pop returns an empty pop.
func Pop(subjects.Verb) desk.Work { return pool.Get() }

// Give returns an empty request that a giver serves.
func Give(by Giver) desk.Work {
	p := pool.Get()
	p.gives = by
	return p
}

func (p *pop) End() {
	p.leaveOrder()
	pool.Put(p)
}

// acknowledgement is what a +NXT does before it pops.
type acknowledgement struct {
	lease fdbpq.Lease
	place settles.Place // among the settlements of the lease
	done  bool          // in an earlier transaction
}

// Next returns the pop of a +NXT, with its place among the settlements of its lease.
func Next(next settles.Next) (desk.Work, *settles.Place) {
	p := pool.Get()
	p.Request, p.ask, p.acks = next.Request, next.Ask, &acknowledgement{lease: next.Lease}
	p.Work = p
	return p, &p.acks.place
}

// leaveOrder starts the next settlement of the lease that a +NXT has acknowledged.
func (p *pop) leaveOrder() {
	if p.acks != nil {
		p.acks.place.Leave()
	}
}

func (p *pop) Items() []fdbpq.Item { return p.found }

func (r *pop) Expects() int { return r.ask.Limit }

// MayWait reports whether a request, which is a pop or a peek, may wait for an item.
func MayWait(w desk.Work) bool { return popOf(w).ask.Wait > 0 }

// taking is a request that is a pop: a pop, a peek, or what serves a giver.
type taking interface{ popped() *pop }

func (p *pop) popped() *pop { return p }

// popOf returns the pop of a request, nil if it is a settlement.
func popOf(w desk.Work) *pop {
	if p, is := w.(taking); is {
		return p.popped()
	}
	return nil
}

// waitsOn reports whether the pop found nothing, and may wait for an item. A queue that does not exist, or not any more, has no item
// yet: a pop waits for the first push to it, and is answered 408 when its time is up.
func (r *pop) waitsOn() bool {
	return r.ask.Wait > 0 && r.Failure != nil && r.Failure.Code == 404 && !r.final
}

// keep drops all that a pop does not need while it waits: its message and the options of it that have had their effect.
// Nothing counts the bytes of waiting pops, so each keeps only what has a bound of its own, 6 KiB in all.
func (p *pop) keep() {
	p.Msg = request.Kept(p.Msg)
	p.ask.Keep()
	if p.gives != nil {
		p.gives.Keep()
	}
}

// forget clears the results of an earlier run of the transaction.
func (p *pop) forget() {
	p.Failure, p.found, p.ready, p.leased, p.confirms, p.final = nil, nil, 0, 0, false, false
}

func (r *pop) Read(*codec.Wire) (f *failure.Failure) {
	end := fdbpq.Min
	if r.Subject.Verb == subjects.PopMax || r.Subject.Verb == subjects.PeekMax {
		end = fdbpq.Max
	}
	switch {
	case r.gives != nil:
		r.ask, f = r.gives.Read(r.Msg, r.Subject.Verb.String())
	case r.peeks:
		r.ask, f = codec.ReadPeek(end, r.Msg)
	default:
		r.ask, f = codec.ReadPop(end, r.Msg)
	}
	return f
}

// sameAs reports whether one read can serve both pops: each asks for one item, from the same end and band, under the
// same lease.
func (r *pop) sameAs(first *pop) bool {
	return first.shares() && r.shares() &&
		r.ask.End == first.ask.End && r.ask.Band == first.ask.Band && r.ask.Lease == first.ask.Lease && r.ask.Confirm == first.ask.Confirm
}

// shares reports whether one read can serve the pop together with others.
func (r *pop) shares() bool {
	return !r.peeks && !r.gone && r.gives == nil && r.acks == nil && r.ask.Plain()
}
