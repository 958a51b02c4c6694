package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// ErrCancelled: somebody has cancelled the item, see [Queue.Cancel]. To the holder of its lease it is an [ErrLeaseLost], too.
var ErrCancelled = errors.New("cancelled")

// CancelOptions configure [Queue.Cancel].
type CancelOptions struct {
	// Reason says why: the result of the item has it, and so does the context of the handler. Up to 1 KiB of it are sent.
	Reason string

	// SpareLeased leaves an item alone with which a consumer has begun: Cancel fails with [ErrLeased] then.
	SpareLeased bool
}

// Cancelled is the result of [Queue.Cancel].
type Cancelled struct {
	Outcome    protocol.Finish // [protocol.FinishCancelled], or how the item had ended before
	FinishedAt time.Time       // when it had; zero: this Cancel has ended the item
	Priority   int64
	Deliveries int
}

// Cancel ends an item for good, whether it waits or is leased, so that nobody works on it any more. Its result, if its push asked for one,
// has the outcome [protocol.FinishCancelled]. The handler of a [Queue.Consume] that works on it hears of that at once: its context ends with
// [ErrCancelled] as the cause. An item that had ended before stays as it has ended, and Cancel says how if its queue keeps that; else the
// error is [ErrNotFound].
func (q *Queue) Cancel(ctx context.Context, id string, o CancelOptions) (*Cancelled, error) {
	request := protocol.CancelRequest{Reason: strings.ToValidUTF8(fitReason(o.Reason), "")}
	if o.SpareLeased {
		request.Leased = new(false)
	}
	body, err := json.Marshal(request)
	if err != nil {
		return nil, err
	}
	var answer protocol.Cancelled
	if err := q.ask(ctx, "cancel", subjects.Subject{Verb: subjects.Cancel, ID: id}, body, &answer); err != nil {
		return nil, err
	}
	return &Cancelled{Outcome: answer.Outcome, FinishedAt: answer.FinishedAt, Priority: answer.Priority, Deliveries: int(answer.Deliveries)}, nil
}

// lostError says why a lease is lost that somebody else has ended.
type lostError struct {
	error         // of the settlement that found it lost, an ErrLeaseLost
	cause, reason string
}

func (e *lostError) Error() string {
	text := e.cause
	if !e.Is(ErrCancelled) {
		text = ErrLeaseLost.Error() + ": " + text
	}
	if e.reason != "" {
		text += ": " + e.reason
	}
	return text
}

func (e *lostError) Unwrap() error { return e.error }

func (e *lostError) Is(target error) bool {
	return target == ErrCancelled && e.cause == string(protocol.FinishCancelled)
}

// whyLost adds to the error of a lost lease what the bridge has told of it, by an event or in its answer. An event tells nothing about a
// lease that is not lost.
func whyLost(err error, rung *protocol.LostEvent) error {
	var answer *Error
	switch {
	case rung != nil:
		return &lostError{err, rung.Cause, rung.Reason}
	case errors.As(err, &answer) && answer.Reason == ReasonCancelled:
		_, reason, _ := strings.Cut(answer.Description, ErrCancelled.Error()+": ")
		return &lostError{err, string(protocol.FinishCancelled), reason}
	}
	return err
}

// gaveUp is the error of a handler whose lease was lost meanwhile: that is why its calls have failed.
func gaveUp(err, lost error) error {
	switch {
	case err == nil, !errors.Is(lost, ErrLeaseLost), errors.Is(err, lost):
		return err
	case err == context.Canceled:
		return lost
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", lost, err)
	}
	return err
}
