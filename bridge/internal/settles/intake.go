package settles

import (
	"sync"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Options are what an [Intake] works with.
type Options struct {
	Responder *request.Responder
	Verb      *request.Verb // of settlements

	// Settle has a settlement take a turn, beside pops or alone.
	Settle func(desk.Work)

	// Pop returns the pop that a +NXT goes on as, with its place among the settlements of its lease. PopNext has it take a turn.
	Pop     func(Next) (desk.Work, *Place)
	PopNext func(desk.Work)
}

// Intake takes settlements in: it reads their bundles, and hands each settlement to its turn behind the earlier settlements of its
// lease.
type Intake struct {
	Options
	order   order
	bundles reader
}

// Init begins with no settlement.
func (in *Intake) Init(o Options) {
	in.Options = o
	in.order.last = make(map[leaseKey]*Place)
	in.bundles.init(in.start)
}

// Enter takes in a settlement, or the settlements of a bundle.
func (in *Intake) Enter(_ string, s *Settlement) { in.bundles.submit(s) }

// GiveBack returns an item that did not reach its consumer to the queue. Overload does not refuse it: waiting for the lease to
// expire would cost more.
func (in *Intake) GiveBack(lease fdbpq.Lease) {
	s := newReturn(in.Verb, lease)
	in.Responder.Gate.Force(&s.Request)
	in.Settle(s)
}

// start hands a settlement, or the settlements of a bundle, to their turns.
func (in *Intake) start(s *Settlement) {
	switch {
	case s.bundle != nil:
		s.bundle.begin(in.Responder, in.settleInOrder)
	case s.Next != nil && s.Msg.Reply != "":
		pop, place := in.Pop(s.pass())
		in.order.start(place, pop, in.PopNext)
	default:
		in.settleInOrder(s)
	}
}

// settleInOrder starts a settlement behind the others of its lease.
func (in *Intake) settleInOrder(s *Settlement) { in.order.start(&s.place, s, in.Settle) }

// order runs the settlements of a lease in the order in which they were read. They may go to different turns,
// which are independent of each other. So only the first settlement of a lease takes a turn at once; each
// further one starts when the one before it has ended.
type order struct {
	mu   sync.Mutex
	last map[leaseKey]*Place // by lease: the last settlement that has not ended
}

// leaseKey names a lease as its ack subject does.
type leaseKey struct{ queue, token string }

func leaseOf(w desk.Work) leaseKey {
	s := &w.Head().Subject
	return leaseKey{s.Queue, s.Token}
}

// Place is the place of a settlement, or of the pop of a +NXT, among the settlements of its lease.
type Place struct {
	of    desk.Work
	start func(desk.Work) // has it take a turn
	in    *order          // nil: it has no place
	next  *Place          // starts when this one ends
}

// start starts a settlement behind the others of its lease.
func (o *order) start(p *Place, of desk.Work, start func(desk.Work)) {
	if o.add(p, of, start) {
		start(of)
	}
}

// add gives a settlement the place behind the others of its lease, and reports whether
// there are none: then it may start.
func (o *order) add(p *Place, of desk.Work, start func(desk.Work)) bool {
	key := leaseOf(of)
	o.mu.Lock()
	defer o.mu.Unlock()
	p.of, p.start, p.in = of, start, o
	before := o.last[key]
	o.last[key] = p
	if before != nil {
		before.next = p
	}
	return before == nil
}

// Leave removes a settlement that has ended, and starts the next one of its lease.
// Without a place it does nothing.
func (p *Place) Leave() {
	o := p.in
	if o == nil {
		return
	}
	o.mu.Lock()
	next := p.next
	if next == nil {
		delete(o.last, leaseOf(p.of))
	}
	*p = Place{}
	o.mu.Unlock()
	if next != nil {
		next.start(next.of)
	}
}

// reader reads bundles of settlements, the bundles of a queue one after another. A thousand leases take a
// millisecond to read. Here they take it from their own queue; in front of the turns, where messages are read one
// after another, all queues would wait. Settlements that arrive at the queue meanwhile start behind the bundle, so
// the settlements of a lease keep their order.
type reader struct {
	start func(*Settlement) // one settlement, or a bundle

	queues atomic.Int64 // whose bundles are being read
	mu     sync.Mutex
	behind map[string][]*Settlement // by queue whose bundles are being read: what has to wait
}

func (r *reader) init(start func(*Settlement)) {
	r.start, r.behind = start, make(map[string][]*Settlement)
}

// submit starts a settlement, or a bundle, behind the settlements of its queue that came before.
func (r *reader) submit(s *Settlement) {
	if s.bundle == nil && r.queues.Load() == 0 || !r.waits(s) {
		r.start(s)
	}
}

// waits reports whether the settlement starts later, behind a bundle. A bundle does not block its caller.
func (r *reader) waits(s *Settlement) bool {
	queue := s.Subject.Queue
	r.mu.Lock()
	defer r.mu.Unlock()
	behind, reading := r.behind[queue]
	switch {
	case reading:
		r.behind[queue] = append(behind, s)
	case s.bundle != nil:
		r.behind[queue] = nil
		r.queues.Add(1)
		go r.read(queue, s)
	default:
		return false
	}
	return true
}

func (r *reader) read(queue string, s *Settlement) {
	for s != nil {
		r.start(s)
		s = r.next(queue)
	}
}

// next returns what arrived first behind the bundle, nil when nothing did.
func (r *reader) next(queue string) *Settlement {
	r.mu.Lock()
	defer r.mu.Unlock()
	behind := r.behind[queue]
	if len(behind) == 0 {
		delete(r.behind, queue)
		r.queues.Add(-1)
		return nil
	}
	first := behind[0]
	behind[0] = nil
	r.behind[queue] = behind[1:]
	return first
}
