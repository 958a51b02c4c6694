package bridge

import (
	"context"
	"errors"
	"fmt"
	"syscall"

	"github.com/pqbridge/pqbridge/bridge/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// failure is why a request was not served, as the answer says it.
type failure struct {
	code        int
	text        string // what is wrong, and what is allowed
	description string // instead of the code's usual one
	reason      protocol.Reason
}

func (f *failure) Error() string { return f.text }

func failf(code int, format string, args ...any) *failure {
	return &failure{code: code, text: fmt.Sprintf(format, args...)}
}

// badRequest is for errors whose text says what is wrong and what is allowed.
func badRequest(err error) *failure { return &failure{code: 400, text: err.Error()} }

// describe is the text that clients know a status by.
func (f *failure) describe() string {
	if f.description != "" {
		return f.description
	}
	return protocol.Description(f.code)
}

var (
	errShutdown = &failure{code: 409, text: "the bridge is shutting down: ask again", description: protocol.DescriptionShutdown}
	errWaited   = &failure{code: 408, text: waiting.ErrOver.Error()}
)

// nothing says why there is no item.
func nothing(queue string, reason fdbpq.Reason) *failure {
	f := &failure{code: 404, reason: protocol.Reason(reason)}
	switch reason {
	case fdbpq.ReasonUnknown:
		f.text = "no queue " + queue
	case fdbpq.ReasonPaused:
		f.text = "queue " + queue + " is paused"
	case fdbpq.ReasonLeased:
		f.text = "queue " + queue + ": all that is left is leased"
	case fdbpq.ReasonDelayed:
		f.text = "queue " + queue + ": all that is left is delayed"
	default:
		f.text = "queue " + queue + ": nothing there"
	}
	return f
}

func noQueue(queue string) *failure {
	f := nothing(queue, fdbpq.ReasonUnknown)
	f.description = protocol.DescriptionNotFound
	return f
}

func noItem(queue, id string) *failure {
	return &failure{
		code: 404, description: protocol.DescriptionNotFound, reason: protocol.ReasonUnknown,
		text: "queue " + queue + " has no item " + id,
	}
}

// explain turns an error of the core or the store into a failure.
func explain(err error) *failure {
	var f *failure
	var lost *fdbpq.LostError
	var config *fdbpq.ConfigError
	var full *waiting.FullError
	switch {
	case errors.As(err, &f):
		return f
	case errors.Is(err, waiting.ErrOver):
		return errWaited
	case errors.As(err, &full):
		return &failure{code: 409, text: err.Error()}
	case errors.As(err, &lost):
		return &failure{code: 410, text: lost.Error(), reason: protocol.Reason(lost.Reason)}
	case errors.As(err, &config):
		return badRequest(err)
	case errors.Is(err, fdbpq.ErrOccupied):
		return &failure{code: 409, text: err.Error(), description: protocol.DescriptionOccupied, reason: protocol.ReasonOccupied}
	case errors.Is(err, fdbpq.ErrPopIDReused), errors.Is(err, fdbpq.ErrTime), errors.Is(err, fdbpq.ErrMsgID), errors.Is(err, fdbpq.ErrPlace):
		return badRequest(err)
	case errors.Is(err, fdbpq.ErrNoQueue):
		return &failure{code: 403, text: "no such queue, and pushes do not make one here: admin.config does"}
	case errors.Is(err, fdbpq.ErrNoDeadLetterQueue):
		return &failure{code: 403, text: err.Error() + " with admin.config"}
	case errors.Is(err, fdbpq.ErrFull):
		return &failure{code: 429, text: err.Error(), reason: protocol.ReasonFull}
	case errors.Is(err, fdbpq.ErrRemembered):
		return &failure{code: 429, text: err.Error(), reason: protocol.ReasonRemembered}
	case errors.Is(err, fdbpq.ErrContent), errors.Is(err, kv.ErrTooLarge):
		return &failure{code: 413, text: err.Error()}
	case errors.Is(err, kv.ErrUnknown):
		return &failure{code: 504, text: "not known whether it was done: repeat it with the same Nats-Msg-Id"}
	case errors.Is(err, kv.ErrDamaged):
		return &failure{code: 506, text: "the store is damaged where this request needs it, nothing was done: trying again does not help, its operator has to act"}
	case isOutage(err) && errors.Is(err, syscall.ENOSPC):
		return &failure{code: 503, text: "the store cannot commit, because its disk is full; nothing was done: try again"}
	case isOutage(err):
		return &failure{code: 503, text: "the store cannot commit now, nothing was done: try again"}
	}
	return &failure{code: 500, text: err.Error()}
}

// isOutage says whether an error is an outage of the store, which concerns all
// requests, and not a failure of one request.
func isOutage(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}
