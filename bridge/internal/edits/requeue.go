package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// requeue pushes a dead letter to the queue that it comes from.
type requeue struct {
	itemEdit
	to     string // where it comes from, "" for wherever
	pushed string // queue that it was pushed to
}

func Requeue(subjects.Verb) desk.Work { return new(requeue) }

func (r *requeue) Read(*codec.Wire) (f *failure.Failure) {
	if f = codec.NoOwnHeaders(r.Msg.Header, r.Subject.Verb.String()); f != nil {
		return f
	}
	if body := bytes.TrimSpace(r.Msg.Data); len(body) > 0 {
		f = codec.ReadObject("the body of a requeue", body, "to", func(name string, value any) (is bool, f *failure.Failure) {
			if is = name == "to"; is {
				r.to, f = codec.ReadString(name, value)
			}
			if is && f == nil {
				f = codec.CheckQueueName(r.to)
			}
			return is, f
		})
	}
	if f == nil {
		r.id, f = codec.ReadID(r.Subject.ID)
	}
	return f
}

func (r *requeue) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	done, err := at.Queue.Requeue(at.Tx, r.id, r.to)
	switch {
	case err != nil:
	case !done.Found:
		r.Failure = failure.NoItem(r.Subject.Queue, r.Subject.ID)
	case done.Err != nil:
		r.Failure = failure.Explain(done.Err)
	default:
		r.pushed = done.To
		r.body = codec.AppendPubAck(r.body[:0], done.To, &done.Pushed)
	}
	return done.Events, err
}

func (r *requeue) Tally(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}

func (r *requeue) Answer(re *request.Responder) {
	re.Stats.Moved(r.pushed, request.FlowIn, 1)
	re.Stats.Queues.Count(r.pushed, &request.Tally{request.Pushed: 1})
	r.change.Answer(re)
}
