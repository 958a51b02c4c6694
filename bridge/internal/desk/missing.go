package desk

import (
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// UnlessUnknown turns the error of a missing queue into the answer of a request. It returns any other error.
func UnlessUnknown(r *request.Request, err error) error {
	if err == fdbpq.ErrNoQueue {
		r.Failure = failure.NoQueue(r.Subject.Queue)
		return nil
	}
	return err
}

// UnlessNone turns the error of a missing queue or schedule into the answer of a request. It returns any other error.
func UnlessNone(r *request.Request, err error) error {
	if err == schedule.ErrNone {
		r.Failure = failure.NoSchedule(r.Subject.Queue, r.Subject.Schedule)
		return nil
	}
	return UnlessUnknown(r, err)
}
