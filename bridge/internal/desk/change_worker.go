package desk

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ChangeWorker is the worker of a lane of changes.
type ChangeWorker[C Change] struct {
	*Lane
	happened []fdbpq.Event // in the last transaction
}

// Work serves a batch of changes.
func (l *ChangeWorker[C]) Work(now batch.Batch[C, batch.Alone]) { batch.Run(now.Requests, l) }

// Try makes changes in one transaction.
func (l *ChangeWorker[C]) Try(requests []C) (at int, err error) {
	started := time.Now()
	leases, tenant := leasesOf(requests), l.Tenant()
	receiving, to, _ := l.Receiving(0, 0) // a requeue adds an item in the place of another one
	defer to.End()
	prefetch := func(tx kv.Tx) { l.Queue.PrefetchLeases(tx, leases...) }
	err = l.Update(batch.Job[kv.Tx]{
		Weight:   len(requests),
		Bytes:    SizeOf(requests),
		Prefetch: prefetch,
		Do: func(tx kv.Tx) error {
			l.happened, at = l.happened[:0], len(requests)
			prefetch(tx)
			c, cost := NewChangeTx(l.Lane, tx, receiving, to), 0
			return l.Store.In(c.Tx, func(w *fdbpq.Work) error {
				c.Queue = receiving.Within(w)
				if err := c.Queue.PrefetchKeys(c.Tx, leases...); err != nil {
					return err
				}
				for i, r := range requests {
					if at = i; !Pays(l.Lane, r, tenant, cost) || !ReserveServes(l.Lane, r) {
						continue
					}
					rows, keys := l.Meter.Rows(), w.Found()[l.Queue.Name()]
					more, err := r.Apply(c)
					r.Head().RowsCost = tenants.CostOfRows(l.Meter.Rows()-rows, 1) + tenants.CostOfKeys(w.Found()[l.Queue.Name()]-keys)
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
	l.Meter.End()
	if err == nil {
		l.Stats.Ran(request.KindChange, len(requests), time.Since(started))
	}
	return at, err
}

// Answer answers changes.
func (l *ChangeWorker[C]) Answer(requests []C, err error) {
	WeighEach(l.Lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	ended := 0
	var tally request.Tally
	for _, r := range requests {
		if r.EndsLease() {
			ended++
		}
		r.Tally(&tally)
	}
	l.Stats.Moved(l.Queue.Name(), request.FlowSettled, ended)
	l.Stats.Queues.Count(l.Queue.Name(), &tally)
	l.Events.Items(l.happened)
	for _, r := range requests {
		AnswerChange(l.Responder, r)
	}
}

// leasesOf returns the leases that are settled among some changes.
func leasesOf[C Change](requests []C) (leases []fdbpq.Lease) {
	for i, r := range requests {
		if lease := r.SettlesLease(); lease != nil {
			if leases == nil {
				leases = make([]fdbpq.Lease, 0, len(requests)-i)
			}
			leases = append(leases, *lease)
		}
	}
	return leases
}
