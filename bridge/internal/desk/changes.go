package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// Change is a request that changes something: a settlement, an edit of an item or of a queue.
//
// Before Apply, a change may be refused by the rate of its tenant (bridge/dispatch.go), by the bounds of the bridge
// (request.Gate), because its tenant owes for rows (Pays), or because little room is left (ReserveServes).
type Change interface {
	Work

	// Apply makes the change within a transaction, which may run again, see [Make]. An error fails the transaction.
	Apply(*ChangeTx) ([]fdbpq.Event, error)

	// SettlesLease is the lease that the change settles, nil if it settles none.
	SettlesLease() *fdbpq.Lease

	// MakesRoom reports whether the change is served where the store serves only what makes room. acts says whether it changes
	// anything.
	MakesRoom(acts bool) bool

	// EndsItems reports the same of a store that serves only what ends items.
	EndsItems(acts bool) bool

	// Keeps is how many bytes of a result the change may have its queue keep.
	Keeps() int

	// Answer answers that the change was made.
	Answer(*request.Responder)

	// EndsLease reports whether the change has ended a lease for good.
	EndsLease() bool

	// Tally adds what the change has done to items.
	Tally(*request.Tally)
}

// Make makes a change within a run of a transaction. Why an earlier run refused the change is forgotten, so whatever else that run
// has left in a change counts for nothing: it is read only if the last run refused nothing, and then that run has set it.
func Make(r Change, at *ChangeTx) ([]fdbpq.Event, error) {
	r.Head().Failure = nil
	return r.Apply(at)
}

// Pays reports whether the tenant of the queue can pay for a change, and otherwise sets the failure of the change. cost is what
// the rows of this transaction have cost so far. Settlements always pass: their rows are few.
func Pays(l *Desk, r Change, tenant *tenants.Tenant, cost int) bool {
	r.Head().RowsCost = 0
	if r.Head().Verb.Settles {
		return true
	}
	f := tenant.Overdrawn(cost)
	if f != nil {
		r.Head().Failure = f
	}
	return f == nil
}

// ReserveServes reports whether the store serves a change now, and otherwise sets the failure of the change: the last part of
// its room is for what makes room.
func ReserveServes(l *Desk, r Change) bool {
	why := l.Reserve()
	if why == nil {
		return true
	}
	acts, _ := r.Act()
	serves := r.MakesRoom(acts)
	if last := l.Last(); last != nil {
		serves, why = r.EndsItems(acts), last
	}
	if !serves {
		r.Head().Failure = failure.Explain(StoreFull(why))
	}
	return serves
}

// AnswerChange answers a change that a transaction has made or refused.
func AnswerChange(re *request.Responder, r Change) {
	if f := r.Head().Failure; f != nil {
		re.Refuse(r.Head(), f)
		return
	}
	r.Answer(re)
}

// ChangeTx is a transaction that makes changes to a queue.
type ChangeTx struct {
	Tx        kv.Tx
	Queue     fdbpq.Queue
	Admit     func(items, bytes int) error // why the transaction may not add new items of some bytes
	Schedules *schedule.Schedules
	Runners   *feeds.Runners
}

// NewChangeTx returns a run of a transaction, whose rows count if the queue has a tenant. What an earlier run has taken of
// the tenant's room is given back.
func NewChangeTx(l *Desk, tx kv.Tx, queue fdbpq.Queue, to *tenants.Admission) *ChangeTx {
	to.Undo()
	return &ChangeTx{
		Tx: l.Metered(tx), Queue: queue, Schedules: l.Schedules, Runners: l.Runners,
		Admit: func(items, bytes int) error { return l.Admit(to, items, bytes) },
	}
}

// Changes are the part of a queue's changes in a turn.
type Changes struct {
	turns.Simple[Work, kv.Tx]
	*Desk

	// The present transaction.
	requests  []Work
	leases    []fdbpq.Lease
	queue     fdbpq.Queue
	admission *tenants.Admission
	tenant    *tenants.Tenant
	happened  []fdbpq.Event // in its last run
}

// Open turns to the changes of a queue.
func (l *Changes) Open(s turns.Start, requests []Work) {
	l.Begin(s.Queue)
	l.Keep(requests)
}

// Plan prepares a transaction of changes. A requeue adds an item in the place of another one.
func (l *Changes) Plan(requests []Work) (int, error) {
	l.requests, l.leases, l.tenant = requests, leasesOf(l.leases[:0], requests), l.Tenant()
	l.queue, l.admission, _ = l.Receiving(0, 0)
	keeps := 0
	for _, w := range requests {
		keeps += w.(Change).Keeps()
	}
	l.admission.ToKeep(keeps)
	return 0, nil
}

// Ahead begins to read what the changes need.
func (l *Changes) Ahead(tx kv.Tx) { l.Queue.PrefetchLeases(tx, l.leases...) }

// Do makes the changes.
func (l *Changes) Do(tx kv.Tx, _ *turns.Limits) (at int, err error) {
	l.Ahead(tx)
	for _, w := range l.requests {
		w.Head().RowsCost = 0 // this run may end before it
	}
	l.happened = l.happened[:0]
	c, cost := NewChangeTx(l.Desk, tx, l.queue, l.admission), 0
	err = l.Store.In(c.Tx, func(w *fdbpq.Work) error {
		c.Queue = l.queue.Within(w)
		w.Keeping(l.admission.Keeping())
		if err := c.Queue.PrefetchKeys(c.Tx, l.leases...); err != nil {
			return err
		}
		for at = range l.requests {
			r := l.requests[at].(Change)
			if !Pays(l.Desk, r, l.tenant, cost) || !ReserveServes(l.Desk, r) {
				continue
			}
			rows, keys := l.Meter.Rows(), w.Found()[l.Queue.Name()]
			more, err := Make(r, c)
			r.Head().RowsCost = tenants.CostOfRows(l.Meter.Rows()-rows, 1) + tenants.CostOfKeys(w.Found()[l.Queue.Name()]-keys)
			if err != nil {
				return err
			}
			cost += r.Head().RowsCost
			l.happened = append(l.happened, more...)
		}
		at = len(l.requests) // their writes together, and the commit, may fail
		return nil
	})
	return at, err
}

// Ran is the number of changes.
func (l *Changes) Ran() (kind, n int) { return int(request.KindChange), len(l.requests) }

// Close ends the transaction.
func (l *Changes) Close(result error) {
	l.Meter.End()
	EndAdmission(l.admission, result)
	clear(l.leases)
	l.requests, l.queue, l.admission, l.tenant = nil, fdbpq.Queue{}, nil, nil
}

// Answer answers changes.
func (l *Changes) Answer(requests []Work, err error) (served int, more bool) {
	WeighEach(l.Desk, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return len(requests), false
	}
	ended := 0
	var tally request.Tally
	for _, w := range requests {
		r := w.(Change)
		if r.EndsLease() {
			ended++
		}
		r.Tally(&tally)
	}
	l.Stats.Settled(l.Queue.Name(), ended, &tally)
	l.Events.Items(l.happened)
	for _, w := range requests {
		AnswerChange(l.Responder, w.(Change))
	}
	return len(requests), false
}

// leasesOf appends the leases that are settled among some changes.
func leasesOf(leases []fdbpq.Lease, requests []Work) []fdbpq.Lease {
	for _, w := range requests {
		if lease := w.(Change).SettlesLease(); lease != nil {
			leases = append(leases, *lease)
		}
	}
	return leases
}
