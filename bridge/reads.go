package bridge

import (
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/bridge/request"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// query is a request that changes nothing.
type query interface {
	work

	// find reads the answer. It may run again, on another state of the store.
	find(*view) error

	// size is roughly how many bytes the answer has. It ends a batch, and nothing else
	// does: a query that reads more than it answers has to count that too, or the
	// queries behind it wait.
	size() int64

	// answer sends it.
	answer(*lane)
}

// view is one state of the store, for the queries of a batch.
type view struct {
	*reads
	reader kv.Reader
	names  []string // of all queues; nil until they are asked for
}

// reads is the work of a lane of queries.
type reads struct {
	*lane
	waits *waits
	about *about
}

// Work serves a batch of queries.
func (l *reads) Work(now batch.Batch[query]) { batch.Run(now.Requests, l) }

// Try serves queries on one state of the store, until their answers reach the limit
// of a batch.
func (l *reads) Try(requests []query) (done int, err error) {
	started := time.Now()
	err = l.view(func(reader kv.Reader) error {
		v := view{reads: l, reader: reader}
		bytes := int64(0)
		for done = 0; done < len(requests) && bytes < int64(l.limits.BatchBytes); done++ {
			r := requests[done]
			r.Head().Failure = nil
			if err := r.find(&v); err != nil {
				return err
			}
			bytes += r.size()
		}
		return nil
	})
	if err == nil {
		l.Stats.Ran(request.KindRead, done, started)
	}
	return done, err
}

// Answer answers queries.
func (l *reads) Answer(requests []query, err error) {
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
	l.body, err = json.Marshal(body)
	return err
}
