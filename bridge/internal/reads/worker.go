package reads

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// worker is the work of a lane.
type worker struct{ *Lane }

// queryWait is how long a query may wait for its turn. When the first in line has waited for half of it, no further
// query may join the line.
const queryWait = desk.TxTimeout

// errSlow refuses a query that other queries of its queue would keep waiting. Otherwise slow queries, one
// after another, would make the line longer than clients wait.
var errSlow = &failure.Failure{Code: 429, Reason: protocol.ReasonBusy,
	Text: "the queries of this queue take too long together: ask again later, or for less"}

// readSlice is the time after which no further query joins a batch on one state of the store: answers are sent when
// all have been read, and a store may keep a state for seconds only.
const readSlice = 100 * time.Millisecond

// Work serves a batch of queries.
func (l *worker) Work(queries []Query) { batch.Run(queries, l) }

// Try serves queries on one state of the store, until their answers reach the limit of a batch, or have taken a
// while. It refuses queries that have waited for too long.
func (l *worker) Try(requests []Query) (done int, err error) {
	started := time.Now()
	tenant := l.Tenant()
	err = l.Lane.View(func(reader kv.Reader) error {
		if tenant != nil {
			reader = l.Meter.Reader(reader)
		}
		v := View{Lane: l.Lane, Reader: reader}
		bytes, begin, cost := int64(0), time.Now(), 0
		for done = 0; done < len(requests) && bytes < int64(l.Batch.Bytes) && (done == 0 || l.Since(begin) < readSlice); done++ {
			r := requests[done]
			r.Head().Failure, r.Head().RowsCost = tenant.Overdrawn(cost), 0
			if r.Head().Failure != nil {
				continue
			}
			if l.Since(r.Head().Arrived) > queryWait {
				r.Head().Failure = errSlow
				continue
			}
			before := l.Meter.Rows()
			err := r.Find(&v)
			r.Head().RowsCost = tenants.CostOfRows(l.Meter.Rows()-before, 1+int(r.Bytes()/request.OwedBytes))
			if err != nil {
				return err
			}
			bytes += r.Bytes()
			cost += r.Head().RowsCost
		}
		return nil
	})
	l.Meter.End()
	if err == nil {
		l.Stats.Ran(request.KindRead, done, time.Since(started))
	}
	return done, err
}

// Answer answers queries.
func (l *worker) Answer(requests []Query, err error) {
	desk.WeighEach(l.Lane.Lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	for _, r := range requests {
		if f := r.Head().Failure; f != nil {
			l.Refuse(r.Head(), f)
			continue
		}
		r.Answer(l.Lane)
	}
}
