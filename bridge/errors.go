package bridge

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"syscall"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

// failure is why a request was not served, as its sender is told.
type failure struct {
	code        int
	text        string // which thing is wrong, and what is allowed
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
	errWaited   = &failure{code: 408, text: "nothing arrived within the time given"}
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

// explain turns an error of the core or the store into what the sender of a
// request is told.
func explain(err error) *failure {
	var f *failure
	var lost *fdbpq.LostError
	var config *fdbpq.ConfigError
	switch {
	case errors.As(err, &f):
		return f
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

// isOutage tells failures of the store, which concern whatever is asked of it,
// from those that concern one request.
func isOutage(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// answerFailure tells the sender of a request that it was not served.
func (b *Bridge) answerFailure(r *request, f *failure) {
	if r.msg.Reply == "" {
		return
	}
	header := nats.Header{
		micro.ErrorHeader:     {headerText(f.text)},
		micro.ErrorCodeHeader: {strconv.Itoa(f.code)},
	}
	if f.reason != "" {
		header[protocol.HeaderReason] = []string{string(f.reason)}
	}
	status := f.code
	var body []byte
	switch {
	case r.refusal == asSettlement:
		status = 503 // AckSync notices nothing else
	case f.code == 504:
		status = 0 // whoever sees one may take it for certain
	case r.refusal == asPublish && f.code != 503:
		status = 0 // JetStream has errors in the body
		body = errorBody(protocol.PushResponseType, f)
	case f.code == 400:
		// Whoever misspells a subject may have meant to publish to a stream.
		body = errorBody(protocol.ErrorResponseType, f)
	}
	if status != 0 {
		header[protocol.HeaderStatus] = []string{strconv.Itoa(status)}
		header[protocol.HeaderDescription] = []string{f.describe()}
	}
	b.publish(&nats.Msg{Subject: r.msg.Reply, Header: header, Data: body})
}

// errorBody is a failure as JetStream answers errors.
func errorBody(responseType string, f *failure) []byte {
	body, err := json.Marshal(protocol.NewErrorResponse(responseType, f.code, f.text))
	if err != nil {
		return nil // numbers and strings always marshal
	}
	return body
}

// publish sends an answer and says whether it left. There is nobody to tell
// when it did not: the sender hears nothing and asks again.
func (b *Bridge) publish(m *nats.Msg) bool {
	err := b.nc.PublishMsg(m)
	if err != nil {
		b.options.Logger.Debug("answer lost", "subject", m.Subject, "error", err)
	}
	return err == nil
}
