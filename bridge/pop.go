package bridge

import (
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// pop is a pop, a peek, a +NXT: a pop that acknowledges first, or what the taker of a link asks for.
type pop struct {
	request.Request
	ask     codec.PopRequest
	peeks   bool               // it leaves the items where they are
	acks    *acknowledgement   // of a +NXT
	gives   *giving            // of the taker of a link
	place   *waiting.Pop[*pop] // where it waits; nil: it does not
	waited  bool               // its wait is over, and this attempt is its last
	asked   bool               // before this attempt, the server said that the client listened
	sure    bool               // the transaction has asked the server about the client
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

var popPool desk.Pool[pop]

func makePop(subjects.Verb) desk.Work { return popPool.Get() }

func makePeek(subjects.Verb) desk.Work {
	p := popPool.Get()
	p.peeks = true
	return p
}

func (p *pop) End() {
	p.leaveOrder()
	popPool.Put(p)
}

// acknowledgement is what a +NXT does before it pops.
type acknowledgement struct {
	lease fdbpq.Lease
	order orderPlace // among the settlements of the lease
	done  bool       // in an earlier transaction
}

// nextPop returns the pop of a +NXT.
func nextPop(s *settlement) *pop {
	p := popPool.Get()
	p.Request, p.ask, p.acks = s.Request, *s.Next, &acknowledgement{lease: s.Lease}
	p.Work = p
	settlementPool.Put(s)
	return p
}

// leaveOrder starts the next settlement of the lease that a +NXT has acknowledged.
func (p *pop) leaveOrder() {
	if p.acks != nil {
		p.acks.order.leave()
	}
}

func (p *pop) Items() []fdbpq.Item { return p.found }

func (r *pop) Expects() int { return r.ask.Limit }

// keepsWaiting reports whether the pop found nothing and may wait for an item.
func (r *pop) keepsWaiting() bool {
	return r.ask.Wait > 0 && r.Failure != nil && r.Failure.Code == 404 && !r.final
}

// keep drops all that a pop does not need while it waits: its message and the options of it that have had their effect.
// Nothing counts the bytes of waiting pops, so each keeps only what has a bound of its own, 6 KiB in all.
func (p *pop) keep() {
	p.Msg = request.Kept(p.Msg)
	p.ask.Keep()
	if p.gives != nil {
		p.gives.keep()
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
		r.gives.ask, r.ask, r.gives.most, f = codec.ReadTake(r.Msg, r.Subject.Verb.String())
	case r.peeks:
		r.ask, f = codec.ReadPeek(end, r.Msg)
	default:
		r.ask, f = codec.ReadPop(end, r.Msg)
	}
	return f
}

// seen keeps the items of a peek, up to the first item that cannot be sent.
func (p *pop) seen(limit *codec.Limit, queue string, taken *fdbpq.Popped) {
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

// A peek that does not wait is a query.

func (p *pop) Find(v *reads.View) error {
	p.forget()
	seen, err := v.Queue.Peek(v.Reader, p.ask.Selection(&v.Limit, v.Queue.Name()))
	if err != nil {
		return err
	}
	p.seen(&v.Limit, v.Queue.Name(), &seen)
	return nil
}

// size returns the size of the items that were found.
func (p *pop) Bytes() (n int64) {
	for i := range p.found {
		n += p.found[i].Size
	}
	return n
}

func (p *pop) Answer(l *reads.Lane) {
	a := peekAnswers.Get().(*answers)
	a.Lane = l.Lane
	a.answerPop(p)
	a.Lane = nil
	peekAnswers.Put(a)
}

// peekAnswers are for peeks that do not wait. Their buffers are used again.
var peekAnswers = sync.Pool{New: func() any { return new(answers) }}
