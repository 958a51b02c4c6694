// Package reads has the requests that change nothing: info, get, list, keys, definitions, and what a bridge says of itself.
//
// What it guarantees: a query sees no earlier state of the store than the queries of its queue before it. A query that has
// waited for 4 s is refused, and so is a new query while the first in line has waited for 2 s.
// Each answer fits into a message of the server.
//
// A [Query] finds its answer in a [View], and sends it when the view has ended. To add a query, add its file, and its row to the
// bridge's table of verbs.
package reads

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Options are what queries read beside the store.
type Options struct {
	Explainer *explain.Explainer
	Waiting   func(queue string) int                              // how many pops wait at a queue
	Taking    func(inside func(queue string) bool) map[string]int // the queues, of some, at which pops wait to take items, with their numbers
	System    func() protocol.System                              // the bridge, except the size of a payload
	History   func(*protocol.History) *protocol.History           // adds the bridge to a history
}

// Desk has the parts that queries need.
type Desk struct {
	*desk.Desk
	Options
	header codec.HeaderWriter // of an answer
}

// Pool runs queries.
type Pool struct {
	*batch.Pool[Query]
	responder *request.Responder
}

// New returns the pool of queries. Each worker of it works on a copy of base.
func New(base desk.Desk, o Options) *Pool {
	base.Batch.Wait = queryWait / 2
	return &Pool{responder: base.Responder, Pool: desk.NewPool(base, func(l *desk.Desk) batch.Worker[Query] {
		return &worker{&Desk{Desk: l, Options: o}}
	})}
}

// Enter hands a query to the pool, or refuses it.
func (p *Pool) Enter(queue string, q Query) {
	if !p.Submit(queue, q) {
		p.responder.Refuse(q.Head(), errSlow)
	}
}

// Query is a request that changes nothing. One that may cost its tenant more than a request has the method Expects, too
// (bridge/dispatch.go).
type Query interface {
	desk.Work

	// Find reads the answer. It may run again, on another state of the store.
	Find(*View) error

	// Bytes is roughly how many bytes the answer has. They end a batch.
	Bytes() int64

	// Answer sends the answer.
	Answer(*Desk)
}

// jsonQuery is a query that is answered in JSON.
type jsonQuery struct {
	request.Request
	body []byte // of the answer
}

func (l *jsonQuery) Bytes() int64    { return int64(len(l.body)) }
func (l *jsonQuery) Answer(by *Desk) { by.AnswerBody(&l.Request, l.body) }

func (l *jsonQuery) answerJSON(body any) (err error) {
	l.body, err = protocol.Marshal(body)
	return err
}

// View is one state of the store, for the queries of a batch.
type View struct {
	*Desk
	Reader kv.Reader
	names  map[string][]string // of queues, by their beginning, as far as they were asked for
}

// worker runs the queries of a queue.
type worker struct{ *Desk }

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
	err = l.Desk.View(func(reader kv.Reader) error {
		if tenant != nil {
			reader = l.Meter.Reader(reader)
		}
		v := View{Desk: l.Desk, Reader: reader}
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
	desk.WeighEach(l.Desk.Desk, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	for _, r := range requests {
		if f := r.Head().Failure; f != nil {
			l.Refuse(r.Head(), f)
			continue
		}
		r.Answer(l.Desk)
	}
}

// alone refuses a request about a cluster where there is none.
type alone struct{ jsonQuery }

func NoCluster(subjects.Verb) desk.Work { return new(alone) }

func (a *alone) Read(*codec.Wire) *failure.Failure {
	return failure.Newf(400, "%s is for stores that several pqd keep together, with PQ_CLUSTER or PQ_STORE=jetstream:<name>: this one is not", a.Subject.Verb)
}

func (a *alone) Find(*View) error { return nil }
