package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Changes are the part of a queue's changes in a turn.
type Changes struct {
	turns.Simple[Work, kv.Tx]
	*Lane

	// The present transaction.
	requests []Work
	leases   []fdbpq.Lease
	queue    fdbpq.Queue
	room     *tenants.Admission
	tenant   *tenants.Tenant
	happened []fdbpq.Event // in its last run
}

// Open turns to the changes of a queue.
func (l *Changes) Open(s turns.Start, requests []Work) {
	l.Begin(s.Queue)
	l.Keep(requests)
}

// Plan prepares a transaction of changes. A requeue adds an item in the place of another one.
func (l *Changes) Plan(requests []Work) (int, error) {
	l.requests, l.leases, l.tenant = requests, leasesOf(l.leases[:0], requests), l.Tenant()
	l.queue, l.room, _ = l.Receiving(0, 0)
	keeps := 0
	for _, w := range requests {
		keeps += w.(Change).Keeps()
	}
	l.room.ToKeep(keeps)
	return 0, nil
}

// Ahead begins to read what the changes need.
func (l *Changes) Ahead(tx kv.Tx) { l.Queue.PrefetchLeases(tx, l.leases...) }

// Do makes the changes.
func (l *Changes) Do(tx kv.Tx, _ *turns.Room) (at int, err error) {
	l.Ahead(tx)
	for _, w := range l.requests {
		w.Head().RowsCost = 0 // this run may end before it
	}
	l.happened = l.happened[:0]
	c, cost := NewChangeTx(l.Lane, tx, l.queue, l.room), 0
	err = l.Store.In(c.Tx, func(w *fdbpq.Work) error {
		c.Queue = l.queue.Within(w)
		w.Keeping(l.room.Keeping())
		if err := c.Queue.PrefetchKeys(c.Tx, l.leases...); err != nil {
			return err
		}
		for at = range l.requests {
			r := l.requests[at].(Change)
			if !Pays(l.Lane, r, l.tenant, cost) || !ReserveServes(l.Lane, r) {
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
	EndRoom(l.room, result)
	clear(l.leases)
	l.requests, l.queue, l.room, l.tenant = nil, fdbpq.Queue{}, nil, nil
}

// Answer answers changes.
func (l *Changes) Answer(requests []Work, err error) (served int, more bool) {
	WeighEach(l.Lane, requests)
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
	l.Stats.Moved(l.Queue.Name(), request.FlowSettled, ended)
	l.Stats.Queues.Count(l.Queue.Name(), &tally)
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
