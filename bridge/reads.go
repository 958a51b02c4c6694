package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// query is a request that changes nothing.
type query interface {
	work

	// find reads the answer. It may run again, on another state of the store.
	find(*view) error

	// size is roughly how many bytes the answer has. It ends a batch.
	size() int64

	// answer sends it.
	answer(*lane)
}

// view is one state of the store, for the queries of a batch.
type view struct {
	*reads
	reader kv.Reader
	names  map[string][]string // of queues, by their beginning, as far as they were asked for
}

// reads is the work of a lane of queries.
type reads struct {
	*lane
	waits *waits
	about *about
}

// queryWait is how long a query may wait for its turn. When the first in line has waited for half of it, no further
// query may join the line.
const queryWait = txTimeout

// readSlice is the time after which no further query joins a batch on one state of the store: answers are sent when
// all have been read, and a store may keep a state for seconds only.
const readSlice = 100 * time.Millisecond

// errSlowQueries refuses a query that other queries of its queue would keep waiting. Otherwise slow queries, one
// after another, would make the line longer than clients wait.
var errSlowQueries = &failure.Failure{Code: 429, Reason: protocol.ReasonBusy,
	Text: "the queries of this queue take too long together: ask again later, or for less"}

// Work serves a batch of queries.
func (l *reads) Work(now batch.Batch[query, batch.Alone]) { batch.Run(now.Requests, l) }

// Try serves queries on one state of the store, until their answers reach the limit of a batch, or have taken a
// while. It refuses queries that have waited for too long.
func (l *reads) Try(requests []query) (done int, err error) {
	started := time.Now()
	tenant := l.tenant()
	err = l.view(func(reader kv.Reader) error {
		if tenant != nil {
			reader = l.meter.Reader(reader)
		}
		v := view{reads: l, reader: reader}
		bytes, begin, cost := int64(0), time.Now(), 0
		for done = 0; done < len(requests) && bytes < int64(l.limits.BatchBytes) && (done == 0 || l.since(begin) < readSlice); done++ {
			r := requests[done]
			r.Head().Failure, r.Head().RowsCost = tenant.Overdrawn(cost), 0
			if r.Head().Failure != nil {
				continue
			}
			if l.since(r.Head().Arrived) > queryWait {
				r.Head().Failure = errSlowQueries
				continue
			}
			before := l.meter.Rows()
			err := r.find(&v)
			r.Head().RowsCost = tenants.CostOfRows(l.meter.Rows()-before, 1+int(r.size()/request.OwedBytes))
			if err != nil {
				return err
			}
			bytes += r.size()
			cost += r.Head().RowsCost
		}
		return nil
	})
	l.meter.End()
	if err == nil {
		l.Stats.Ran(request.KindRead, done, started)
	}
	return done, err
}

// Answer answers queries.
func (l *reads) Answer(requests []query, err error) {
	weighEach(l.lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	for _, r := range requests {
		if f := r.Head().Failure; f != nil {
			l.Refuse(r.Head(), f)
			continue
		}
		r.answer(l.lane)
	}
}

// jsonQuery is a query that is answered in JSON.
type jsonQuery struct {
	request.Request
	body []byte // of the answer
}

func (l *jsonQuery) size() int64       { return int64(len(l.body)) }
func (l *jsonQuery) answer(lane *lane) { lane.AnswerBody(&l.Request, l.body) }

func (l *jsonQuery) answerJSON(body any) (err error) {
	l.body, err = protocol.Marshal(body)
	return err
}
