package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
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
func Pays(l *Lane, r Change, tenant *tenants.Tenant, cost int) bool {
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
func ReserveServes(l *Lane, r Change) bool {
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
