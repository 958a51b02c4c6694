package bridge

import (
	"bytes"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/reserve"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// changer is a request that changes something: a settlement, an item or a queue.
type changer interface {
	work

	// apply makes the change within a transaction, which may run again. An error fails
	// the transaction.
	apply(*changing) ([]fdbpq.Event, error)

	// lease is the lease that the change settles, nil if it settles none.
	lease() *fdbpq.Lease

	// makesRoom reports whether the change is served where the store serves only what makes room. acts says whether it changes
	// anything.
	makesRoom(acts bool) bool

	// answer answers that the change was made.
	answer(*request.Responder)

	// endsLease reports whether the change has ended a lease for good.
	endsLease() bool

	// count adds what the change has done to items.
	count(*request.Tally)
}

// changing is a transaction that makes changes to a queue.
type changing struct {
	tx        kv.Tx
	queue     fdbpq.Queue
	room      func(items, bytes int) error // why the transaction may not add new items of some bytes
	schedules *schedule.Schedules
	runners   *feeds.Runners
}

// changing returns a transaction of the lane, whose rows count if the queue has a tenant.
func (l *lane) changing(tx kv.Tx, queue fdbpq.Queue, to *tenants.Admission) *changing {
	return &changing{
		tx: l.metered(tx), queue: queue, schedules: l.schedules, runners: l.runners,
		room: func(items, bytes int) error { return l.room(to, items, bytes) },
	}
}

// changes is the work of a lane of changes.
type changes[C changer] struct {
	*lane
	happened []fdbpq.Event // in the last transaction
}

// Work serves a batch of changes.
func (l *changes[C]) Work(now batch.Batch[C, batch.Alone]) { batch.Run(now.Requests, l) }

// Try makes changes in one transaction.
func (l *changes[C]) Try(requests []C) (at int, err error) {
	started := time.Now()
	leases, tenant := leasesOf(requests), l.tenant()
	receiving, to, _ := l.receiving(0, 0) // a requeue adds an item in the place of another one
	defer to.End()
	prefetch := func(tx kv.Tx) { l.queue.PrefetchLeases(tx, leases...) }
	err = l.update(batch.Job[kv.Tx]{
		Weight:   len(requests),
		Bytes:    sizeOf(requests),
		Prefetch: prefetch,
		Do: func(tx kv.Tx) error {
			l.happened, at = l.happened[:0], len(requests)
			prefetch(tx)
			c, cost := l.changing(tx, receiving, to), 0
			return l.store.In(c.tx, func(w *fdbpq.Work) error {
				c.queue = receiving.Within(w)
				if err := c.queue.PrefetchKeys(c.tx, leases...); err != nil {
					return err
				}
				for i, r := range requests {
					if at = i; !l.pays(r, tenant, cost) || !l.takes(r) {
						continue
					}
					rows, keys := l.meter.Rows(), w.Found()[l.queue.Name()]
					more, err := r.apply(c)
					r.Head().RowsCost = tenants.CostOfRows(l.meter.Rows()-rows, 1) + tenants.CostOfKeys(w.Found()[l.queue.Name()]-keys)
					if err != nil {
						return err
					}
					cost += r.Head().RowsCost
					l.happened = append(l.happened, more...)
				}
				at = len(requests) // their writes together, and the commit, may fail
				return nil
			})
		},
	})
	l.meter.End()
	if err == nil {
		l.Stats.Ran(request.KindChange, len(requests), started)
	}
	return at, err
}

// pays reports whether the tenant of the queue does not owe too much for rows, among them such a cost of the present
// transaction, and otherwise refuses a change. Settlements are served: their rows are few.
func (l *lane) pays(r changer, tenant *tenants.Tenant, cost int) bool {
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

// takes reports whether the store serves a change now, and otherwise refuses it.
func (l *lane) takes(r changer) bool {
	why := l.reserve()
	if why == nil {
		return true
	}
	acts, _ := r.Act()
	serves := r.makesRoom(acts)
	if !serves {
		r.Head().Failure = failure.Explain(storeFull(why))
	}
	return serves
}

// Answer answers changes.
func (l *changes[C]) Answer(requests []C, err error) {
	weighEach(l.lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	ended := 0
	var tally request.Tally
	for _, r := range requests {
		if r.endsLease() {
			ended++
		}
		r.count(&tally)
	}
	l.Stats.Moved(l.queue.Name(), request.FlowSettled, ended)
	l.Stats.Queues.Count(l.queue.Name(), &tally)
	l.Events.Items(l.happened)
	for _, r := range requests {
		answerChange(l.Responder, r)
	}
}

func answerChange(re *request.Responder, r changer) {
	if f := r.Head().Failure; f != nil {
		re.Refuse(r.Head(), f)
		return
	}
	r.answer(re)
}

// change is a request that changes an item or a queue, and is answered in JSON.
type change struct {
	request.Request
	body []byte // of the answer
}

func (c *change) answer(re *request.Responder) { re.AnswerBody(&c.Request, c.body) }
func (c *change) lease() *fdbpq.Lease          { return nil }
func (c *change) makesRoom(acts bool) bool     { return reserve.Serves(c.Subject.Verb, acts) }
func (c *change) endsLease() bool              { return false }
func (c *change) count(*request.Tally)         {}

// definition is a change of something lasting, such as the settings of a key.
type definition struct{ change }

// changedBy is the act of a request that changes a definition unless its body is empty.
func (d *definition) changedBy(body []byte) (done bool, details []any) {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return false, nil
	}
	return true, []any{"change", fdbpq.ReasonText(string(body))}
}

// fits reports whether a transaction has room for this many bytes, and otherwise refuses the request.
func (d *definition) fits(at *changing, bytes int) bool {
	d.Failure = nil
	if err := at.room(0, bytes); err != nil {
		d.Failure = failure.Explain(err)
	}
	return d.Failure == nil
}

// did sets the answer to a change. A missing queue is an answer, too; any other error
// fails the transaction.
func (c *change) did(answer any, err error) error {
	c.Failure = nil
	if err == nil {
		c.body, err = protocol.Marshal(answer)
	}
	return unlessUnknown(&c.Request, err)
}

// unlessUnknown turns the error of a missing queue into the answer.
func unlessUnknown(r *request.Request, err error) error {
	if err == fdbpq.ErrNoQueue {
		r.Failure = failure.NoQueue(r.Subject.Queue)
		return nil
	}
	return err
}

// leasesOf returns the leases that are settled among some changes.
func leasesOf[C changer](requests []C) (leases []fdbpq.Lease) {
	for i, r := range requests {
		if lease := r.lease(); lease != nil {
			if leases == nil {
				leases = make([]fdbpq.Lease, 0, len(requests)-i)
			}
			leases = append(leases, *lease)
		}
	}
	return leases
}

// edit is a request that removes an item or moves it to another priority.
type edit struct {
	change
	id fdbpq.ID
}

func (e *edit) Read(*codec.Wire) (f *failure.Failure) {
	if f = codec.NoOptions(e.Msg, e.Subject.Verb.String()); f == nil {
		e.id, f = codec.ReadID(e.Subject.ID)
	}
	return f
}

// found answers which item was changed, or that there is none.
func (e *edit) found(found bool, priority int64, err error) error {
	if err == nil && !found {
		e.Failure = failure.NoItem(e.Subject.Queue, e.Subject.ID)
		return nil
	}
	return e.did(protocol.Changed{ID: e.Subject.ID, Priority: priority}, err)
}

// removal removes an item.
type removal struct{ edit }

func makeRemove(subjects.Verb) work { return new(removal) }

func (r *removal) apply(at *changing) ([]fdbpq.Event, error) {
	priority, found, err := at.queue.Remove(at.tx, r.id)
	return nil, r.found(found, priority, err)
}

func (r *removal) count(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}

// move gives an item another priority.
type move struct{ edit }

func makeMove(subjects.Verb) work { return new(move) }

func (m *move) apply(at *changing) ([]fdbpq.Event, error) {
	found, err := at.queue.Move(at.tx, m.id, m.Subject.Priority)
	return nil, m.found(found, m.Subject.Priority, err)
}
