// Package pops has the requests that take items, or look at them: pops, peeks, and the pops of a +NXT, which acknowledge first. Pops
// that find nothing may wait in a [Waits]. A [Giver] serves its requests in a way of its own. Settlements that the bridge sends to the
// turns of pops take effect in the same transactions, before the pops.
//
// What it guarantees: the pops of a band are served in the order in which they arrive, waiting ones first. A pop that waits is
// answered once, before its time is up, unless its client has gone. It waits also at a queue that does not exist, or was deleted. A
// pop without a lease takes no item for a client that has gone, as far as the server knows of it, and an item under lease that did
// not reach its client goes back at once. A repeated pop gets the items of its first attempt, or a final answer that there are
// none. A pop for which an item does not fit into an answer leaves the item in the queue.
package pops

import (
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/settles"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
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

	reserved int64 // of the cost, by the delivery
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

// popper is a request that is a pop: a pop, a peek, or what serves a giver.
type popper interface{ popped() *pop }

func (p *pop) popped() *pop { return p }

// popOf returns the pop of a request, nil if it is a settlement.
func popOf(w desk.Work) *pop {
	if p, is := w.(popper); is {
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

// peek is a pop that leaves the items where they are. It is a query, unless it waits.
type peek struct{ pop }

var peekPool desk.Pool[peek]

// Peek returns an empty peek.
func Peek(subjects.Verb) desk.Work {
	p := peekPool.Get()
	p.peeks = true
	return p
}

func (p *peek) End() { peekPool.Put(p) }

func (p *peek) Find(v *reads.View) error {
	p.forget()
	taken, err := v.Queue.Peek(v.Reader, p.ask.Selection(&v.Limit, v.Queue.Name()))
	if err == nil {
		seen(&p.pop, &v.Limit, v.Queue.Name(), &taken)
	}
	return err
}

// Bytes is the size of the items that were found.
func (p *peek) Bytes() (n int64) {
	for i := range p.found {
		n += p.found[i].Size
	}
	return n
}

func (p *peek) Answer(l *reads.Desk) {
	a := peekAnswers.Get().(*answers)
	a.Desk = l.Desk
	a.answerPop(&p.pop)
	a.Desk = nil
	peekAnswers.Put(a)
}

// peekAnswers are for peeks that do not wait. Their buffers are used again.
var peekAnswers = sync.Pool{New: func() any { return new(answers) }}

// seen keeps the items of a peek, up to the first item that cannot be sent.
func seen(p *pop, limit *codec.Limit, queue string, taken *fdbpq.Popped) {
	items := taken.Items
	if len(items) == 0 {
		p.Failure = failure.NothingIn(queue, p.ask.Band, taken)
	}
	for i := range items {
		if f := limit.Unanswerable(queue, &items[i]); f != nil {
			if items = items[:i]; i == 0 {
				p.Failure = f
			}
			break
		}
	}
	if p.ask.Bundle && len(items) > 0 {
		if items = items[:limit.Bundled(queue, items)]; len(items) == 0 {
			p.Failure = codec.ErrBundleRoom
		}
	}
	p.found = items
	p.ready = max(0, taken.Ready-int64(len(items)))
}

// Giver serves one pop in a way of its own: it gives items of the queue to a taker elsewhere, and answers by itself. All else is as
// for other pops: the request waits in the same line, and its transaction has others.
type Giver interface {
	// Read reads the request, and returns the pop that it means for the queue.
	Read(m *nats.Msg, verb string) (codec.PopRequest, *failure.Failure)

	// Give gives items within a transaction, which may run again.
	Give(*Giving) (Given, error)

	// Keep drops what is not needed while the request waits.
	Keep()

	// Answer answers with what the last run of Give has given.
	Answer(*desk.Desk, *request.Request) *failure.Failure

	// Refused is called when the request is refused instead.
	Refused(*desk.Desk, *request.Request, *failure.Failure)
}

// Giving is a transaction that gives items.
type Giving struct {
	Tx      kv.Tx
	Store   *fdbpq.Store
	Queue   fdbpq.Queue
	Subject *subjects.Subject
	Items   fdbpq.Selection
	Limit   *codec.Limit
}

// Given are the items that were given, and what else happened.
type Given struct {
	Items    []fdbpq.Item
	Bytes    int
	Repeated bool // an earlier transaction has given them

	Failure *failure.Failure // why there are none
	Final   bool             // and no wait would bring any
	Retry   time.Duration    // until there may be some; 0: unknown
	Fits    int              // so many items fit into the answer, fewer than were given; 0: all do
	More    bool             // another transaction has to look on

	Ended  int // items that the taker has now
	Events []fdbpq.Event
}
