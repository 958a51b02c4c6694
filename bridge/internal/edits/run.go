package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// runSchedule pushes the item of a schedule now.
type runSchedule struct {
	change
	msgID  string
	size   int // of the item
	pushed fdbpq.Pushed
}

func (r *runSchedule) Act() (done bool, details []any) { return true, nil }

// Expects is how much a push of the largest item costs.
func (r *runSchedule) Expects() int { return 1 + schedule.MaxItem/request.OwedBytes }

func (r *runSchedule) Read(*codec.Wire) (f *failure.Failure) {
	if r.msgID, f = codec.ReadRun(r.Msg, r.Subject.Verb.String()); f != nil {
		return f
	}
	return nil
}

func (r *runSchedule) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	pushed, err := at.Schedules.Push(at.Tx, at.Queue, r.Subject.Schedule, r.msgID, func(bytes int) error {
		r.size = bytes
		return at.Room(1, bytes)
	})
	switch {
	case err != nil:
		return nil, desk.AnswerNoSchedule(&r.Request, err)
	case pushed.Err != nil:
		r.Failure = failure.Explain(pushed.Err)
	default:
		r.pushed = pushed
		r.body = codec.AppendPubAck(r.body[:0], at.Queue.Name(), &pushed)
	}
	return pushed.Events, nil
}

func (r *runSchedule) Tally(tally *request.Tally) {
	switch {
	case r.Failure != nil:
	case r.pushed.Duplicate:
		tally[request.Duplicates]++
	default:
		tally[request.Pushed]++
	}
}

func (r *runSchedule) Answer(re *request.Responder) {
	r.Share.Owe(1, r.size)
	if !r.pushed.Duplicate {
		re.Stats.Moved(r.Subject.Queue, request.FlowIn, 1)
	}
	r.change.Answer(re)
}
