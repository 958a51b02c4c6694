package results

import (
	"errors"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// result is a request for what became of an item. It is a query: one that waits asks again when the item has ended.
type result struct {
	request.Request
	id    fdbpq.ID
	wait  time.Duration
	found *fdbpq.Result

	// Of one that waits.
	by      waits                 // nil: it does not wait
	place   *waiting.Pop[*result] // nil: it has none yet
	pending bool                  // the item has not ended
	again   bool                  // it may have ended since the query under way began
}

// waits keeps requests that wait.
type waits interface {
	keep(*result)
	forget(*result)
}

// Result returns an empty request.
func Result(subjects.Verb) desk.Work { return new(result) }

func (q *result) Read(*codec.Wire) (f *failure.Failure) {
	if q.wait, f = codec.ReadWait(q.Msg, q.Subject.Verb.String()); f == nil {
		q.id, f = codec.ReadID(q.Subject.ID)
	}
	return f
}

// Find looks for the result.
func (q *result) Find(v *reads.View) (err error) {
	q.found, q.pending = nil, false
	found, err := v.Queue.Result(v.Reader, q.id)
	switch {
	case errors.Is(err, fdbpq.ErrPending) && q.by != nil:
		q.pending = true
		return nil
	case errors.Is(err, fdbpq.ErrPending), errors.Is(err, fdbpq.ErrUnkept):
		q.Failure = failure.Explain(err)
		return nil
	case err != nil:
		return err
	case found == nil:
		q.Failure = failure.NoResult(q.Subject.Queue, q.Subject.ID)
		return nil
	}
	if q.Failure = v.Limit.UnshowableResult(q.Subject.ID, found); q.Failure == nil {
		q.found = found
	}
	return nil
}

// Bytes are those of the result.
func (q *result) Bytes() int64 {
	if q.found == nil {
		return 0
	}
	return int64(len(q.found.Body))
}

// Answer answers with the result, or has the request wait on.
func (q *result) Answer(l *reads.Lane) {
	if q.pending {
		q.by.keep(q)
		return
	}
	var w codec.HeaderWriter
	w.Reset()
	w.Result(q.found, l.Store.Display)
	m := nats.Msg{Subject: q.Msg.Reply, Header: w.Finish(), Data: q.found.Body}
	q.Share.Owe(0, len(q.found.Body))
	l.Done(&q.Request, l.Responder.Answer(&q.Request, &m))
}

// End gives the place back of a request that waited.
func (q *result) End() {
	if q.by != nil {
		q.by.forget(q)
	}
}
