package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// AnswerNoQueue sets the failure of a query or a change if its queue is missing. It returns any other error. To pops a missing queue
// is an empty one.
func AnswerNoQueue(r *request.Request, err error) error {
	if err == fdbpq.ErrNoQueue {
		r.Failure = failure.NoQueue(r.Subject.Queue)
		return nil
	}
	return err
}

// AnswerNoSchedule sets the failure of a request if its queue or schedule is missing. It returns any other error.
func AnswerNoSchedule(r *request.Request, err error) error {
	if err == schedule.ErrNone {
		r.Failure = failure.NoSchedule(r.Subject.Queue, r.Subject.Schedule)
		return nil
	}
	return AnswerNoQueue(r, err)
}
