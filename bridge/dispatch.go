package bridge

import (
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// dispatcher turns messages of the receiver into requests, and hands them to the workers.
type dispatcher struct {
	*request.Responder
	*codec.Wire
	replies *replies
	workers *workers
	tenants *tenants.Tenants // nil: there are none
	later   *refusals        // nil likewise

	// flood makes the receiver refuse messages of a tenant unread for a while.
	flood func(tenant string)

	asks    *explain.Asks
	owners  *peers.Owners    // nil: this bridge owns all queues
	cluster *ClusterEndpoint // nil: the store belongs to this process, or to all that open it
}

// receive handles a message of the subscriptions to requests and settlements. It
// never blocks: it refuses the request at once or hands it to a worker.
func (d *dispatcher) receive(m *nats.Msg) { d.handle(m, d.owners) }

// serve handles a request that another bridge has passed on, or that no other bridge got.
func (d *dispatcher) serve(m *nats.Msg) { d.handle(m, nil) }

// unknown answers a request that was passed on if the other bridge stays silent about it.
func (d *dispatcher) unknown(m *nats.Msg) {
	s, err := d.Grammar.Parse(m.Subject)
	if err != nil {
		return // such a request is never passed on
	}
	r := newWork(verbOf(s.Verb), s, m).Head()
	r.PassGate()
	d.Refuse(r, errPassed)
}

var errPassed = &failure.Failure{Code: 504, Text: "another bridge on the store got this request and says no more, so it is not known whether it was done: repeat it with the same Nats-Msg-Id"}

// handle handles a message, unless an owner of its queue takes it.
func (d *dispatcher) handle(m *nats.Msg, owners *peers.Owners) {
	s, err := d.Grammar.Parse(m.Subject)
	if err == nil {
		if d.handledElsewhere(&s, m) {
			return
		}
		if s.Verb == subjects.Event {
			err = failure.Newf(400, "subject %s: events are published by the bridge, subscribe to them", failure.Quote(m.Subject))
		}
	} else if m.Reply == "" && d.Grammar.IsSystemEvent(m.Subject) {
		return // of another bridge, or between bridges
	}
	unfit := codec.CheckBlock(m)
	if m.Reply != "" && !d.replies.answers(m.Reply) {
		unfit = d.replies.refuse(d.meantQueue(m.Subject), m)
	}
	var w desk.Work
	if err != nil {
		unfit, w = failure.BadRequest(err), d.malformed(m)
	} else {
		if unfit == nil && owners != nil && contends(s.Verb) && owners.Pass(s.Queue, m) {
			if s.Verb != subjects.Ack {
				d.asks.Note(s.Queue, fdbpq.AllPriorities, peers.Passing) // until the other bridge knows the band
			}
			return
		}
		w = newWork(verbOf(s.Verb), s, m)
	}
	r := w.Head()
	tenant, f := d.admit(r)
	if f == nil && unfit != nil {
		r.PassGate()
		d.Refuse(r, unfit)
		return
	}
	if f == nil {
		f = d.Gate.Enter(r)
	}
	if f != nil && tenant != nil {
		d.refuseTenant(r, tenant, f)
		return
	}
	if f == nil && !r.Verb.Silent && m.Reply == "" {
		f = failure.Newf(400, "a %s without a reply subject does nothing", r.Verb.Name)
	}
	if f == nil {
		f = w.Read(d.Wire)
	}
	if f == nil {
		f = d.Gate.EnterMore(r)
	}
	if f == nil {
		tenant.Charge(r.Count() - 1)
	}
	if f != nil {
		d.Refuse(r, f)
		return
	}
	if n := expected(w); n > 1 && tenant != nil {
		tenant.Begin(n, func(f *failure.Failure) {
			if f != nil {
				d.refuseLater(r, 0, tenant, f)
				return
			}
			r.OnLeave = func() { tenant.End(n) }
			d.workers.submit(w)
		})
		return
	}
	d.workers.submit(w)
}

// handledElsewhere reports whether a well-formed message needs no worker: another bridge or another part of
// this process handles it.
func (d *dispatcher) handledElsewhere(s *subjects.Subject, m *nats.Msg) bool {
	switch s.Verb {
	case subjects.Event:
		return m.Reply == "" // another bridge's event
	case subjects.Ack:
		if !listening.Unreceived(m) {
			return false
		}
		if d.Gate.Closed() { // signals may have ended
			d.signal(m)
		}
		return true // the bridge that delivered the item receives the message, too
	case subjects.SysClusterStatus:
		return d.cluster != nil // the endpoint has a subscription of its own
	case subjects.SysClusterStepDown, subjects.SysClusterReplace:
		if d.cluster == nil || d.Gate.Closed() {
			return false
		}
		// The request is not in flight here: this bridge drains before it answers a hand-over.
		d.cluster.change(*s, m)
		return true
	}
	return false
}

// refuseTenant refuses a request of a tenant with a pause, while the gate has room for requests that wait for one. The
// receiver refuses further messages of a tenant that floods it.
func (d *dispatcher) refuseTenant(r *request.Request, tenant *tenants.Tenant, f *failure.Failure) {
	size := r.Msg.Size()
	if tenant.Floods(size) {
		d.flood(tenant.Name())
	}
	r.Keep()
	if d.Gate.Enter(r) != nil {
		r.PassGate()
		d.Refuse(r, f)
		return
	}
	d.refuseLater(r, size, tenant, f)
}

// larger is a request that may cost more than one.
type larger interface {
	desk.Work

	// Expects is how many requests it may cost.
	Expects() int
}

// expected is how many requests a work may cost.
func expected(w desk.Work) int {
	if l, is := w.(larger); is {
		return l.Expects()
	}
	return 1
}

// admit takes a request from the rate of the asking tenant, or says why it is refused. Without tenants it admits
// everything.
func (d *dispatcher) admit(r *request.Request) (*tenants.Tenant, *failure.Failure) {
	if d.tenants == nil {
		return nil, nil
	}
	name := d.tenant(r.Msg.Subject)
	if name == "" {
		return nil, nil
	}
	t := d.tenants.Of(name)
	r.Share = &t.Share
	f := t.Ask(r.Verb.Settles)
	if f == nil {
		t.Charge(len(r.Msg.Data) / request.OwedBytes)
	}
	return t, f
}

// tenant returns the asking tenant, "" for the operator.
func (d *dispatcher) tenant(subject string) string {
	name, _, _ := strings.Cut(d.Grammar.Rest(subject), ".")
	if subjects.CheckTenant(name) != nil {
		return ""
	}
	return name
}

// refuseLater refuses a request of some bytes after a pause.
func (d *dispatcher) refuseLater(r *request.Request, bytes int, t *tenants.Tenant, f *failure.Failure) {
	time.AfterFunc(t.Pause(bytes), func() { d.later.do(func() { d.Refuse(r, f) }) })
}

// contends reports whether requests of a kind conflict with the pops of other bridges: pops
// do, and settlements where keys have limits.
func contends(v subjects.Verb) bool {
	return v == subjects.PopMin || v == subjects.PopMax || v == subjects.Link || v == subjects.Ack
}

// malformed returns a request whose subject is malformed, for its refusal. An event names the queue of a push that nobody waits for.
func (d *dispatcher) malformed(m *nats.Msg) desk.Work {
	v := d.meant(m.Subject)
	var s subjects.Subject
	if v == verbPush && m.Reply == "" {
		s.Queue = d.meantQueue(m.Subject)
	}
	w := newWork(verbNone, s, m)
	w.Head().Verb, w.Head().Refusal = &v.Verb, v.Refusal
	return w
}

// meant guesses the verb of a malformed subject, since the answer to a failed push has a form of its own.
func (d *dispatcher) meant(subject string) *verb {
	_, rest := d.Grammar.Split(subject)
	word, _, _ := strings.Cut(rest, ".")
	return verbNamed(word)
}

// meantQueue returns the queue of a malformed subject, or "" when its name is
// malformed.
func (d *dispatcher) meantQueue(subject string) string {
	queue, _ := d.Grammar.Split(subject)
	if d.Grammar.CheckName(queue) != nil {
		return ""
	}
	return queue
}

// kind is a kind of work. It decides which turns or pool a request enters, see workers.open. Peeks and settlements enter those of other
// kinds.
type kind int

const (
	kindPush kind = iota
	kindImport
	kindPop
	kindPeek // one that waits is a pop, another one a query
	kindSettlement
	kindQuery
	kindResult // a query, which may wait
	kindChange
	kindBulk
	kinds
)

// entrance hands a request of a kind to its workers. queue names its line: the queue of the request or, if it asks the system, its
// tenant and a dot.
type entrance func(queue string, w desk.Work)

// entranceTo returns the entrance to turns, whose parts of a kind take all requests as they come.
func entranceTo(to *desk.Turns, part int) entrance {
	return func(queue string, w desk.Work) { to.Submit(turns.Key{Kind: part, Queue: queue}, w) }
}

// entranceOf returns the entrance of a kind, all of whose requests are of type W.
func entranceOf[W desk.Work](enter func(queue string, w W)) entrance {
	return func(queue string, w desk.Work) { enter(queue, w.(W)) }
}

// signal handles the messages on the ack subjects of the items that this bridge delivered. It ignores settlements,
// which receive handles. The server's message that no client received an item arrives only here.
func (d *dispatcher) signal(m *nats.Msg) {
	if !listening.Unreceived(m) {
		return
	}
	s, err := d.Grammar.Parse(m.Subject)
	if err != nil {
		return
	}
	if lease, _, f := d.Sealer.Open(s.Queue, s.Token); f == nil {
		d.workers.settling.GiveBack(lease)
	}
	for _, lease := range d.workers.sent.Take(s.Queue, s.Token) {
		d.workers.settling.GiveBack(*lease)
	}
}
