package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/protocol"
)

// Kinds of errors, for errors.Is.
var (
	// ErrEmpty: there was nothing to pop or peek, or nothing arrived in time.
	// [Error.Reason] says why.
	ErrEmpty = errors.New("nothing there")

	// ErrNotFound: there is no such item or no such queue.
	ErrNotFound = errors.New("not found")

	// ErrNoResultYet: an item goes on, or no bridge says what became of it. [Error.ID] is the item: ask again with
	// [Queue.Result].
	ErrNoResultYet = errors.New("no result yet")

	// ErrLeaseLost: the caller's lease is no longer valid, and the settlement had no
	// effect. [Error.Reason] says why.
	ErrLeaseLost = errors.New("lease lost")

	// ErrTooLarge: the item is larger than the NATS server's max_payload allows.
	ErrTooLarge = errors.New("too large")

	// ErrOccupied: another item has the place, or the unique value, of the imported item.
	ErrOccupied = errors.New("occupied")

	// ErrLeased: the item that a push was to replace is leased.
	ErrLeased = errors.New("leased")

	// ErrBusy: the bridge has too many requests, or the queue is full. Nothing was done.
	ErrBusy = errors.New("busy")

	// ErrUnavailable: no bridge answers, or its store cannot commit. Nothing was done.
	ErrUnavailable = errors.New("unavailable")

	// ErrDamaged: the request needs data of a damaged file of the store. Nothing was
	// done, and trying again does not help.
	ErrDamaged = errors.New("store damaged")

	// ErrUnknownResult: there was no answer, so the request was done or not.
	ErrUnknownResult = errors.New("unknown result")
)

// Errors of the client itself.
var (
	// ErrNotLeased: the item was popped without a lease, so there is nothing to settle; or it has no lease to
	// revoke.
	ErrNotLeased = errors.New("item is not leased")

	// ErrProgressDropped: the lease is extended, and there was no room for what its holder has said.
	ErrProgressDropped = errors.New("no room for the progress of the item: the lease is extended")

	// ErrSettled: the item was settled already by the same handle.
	ErrSettled = errors.New("item was settled already")
)

// Reason is a detail of an error: why there is nothing to pop, why a lease is lost, or which limit is reached.
type Reason = protocol.Reason

// Error is the error of a request: a bridge's answer, or the reason why there was none.
type Error struct {
	Op          string // the operation: push, pop, …
	Queue       string // the queue, if the request was about one
	ID          string // the item whose result was asked for
	Progress    string // of an item that has no result yet: what its holder has said of how far it is
	Code        int
	Reason      Reason // of codes 404, 409, 410 and 429
	Description string

	cause error
	item  *int
}

// Item returns which item of a [Queue.PushMany] the error is about, from 0, false if it
// is about all of them.
func (e *Error) Item() (index int, one bool) {
	if e.item == nil {
		return 0, false
	}
	return *e.item, true
}

func (e *Error) Error() string {
	on := e.Op
	if e.Queue != "" {
		on += " " + e.Queue
	}
	return fmt.Sprintf("%s: %s (%d)", on, e.Description, e.Code)
}

// Is lets errors.Is compare the error with the variables named Err….
func (e *Error) Is(target error) bool {
	looked := e.Op == "pop" || e.Op == "peek"
	switch target {
	case ErrEmpty:
		return e.Code == protocol.CodeTimeout && !e.goesOn() || e.Code == protocol.CodeNotFound && looked
	case ErrNoResultYet:
		return e.goesOn()
	case ErrNotFound:
		return e.Code == protocol.CodeNotFound && e.Reason != ReasonPending && (!looked || e.Reason == ReasonUnknown)
	case ErrNotLeased:
		return e.Code == protocol.CodeConflict && e.Reason == ReasonNotLeased
	case ErrLeaseLost:
		return e.Code == protocol.CodeLeaseLost
	case ErrCancelled:
		return e.Code == protocol.CodeLeaseLost && e.Reason == ReasonCancelled
	case ErrTooLarge:
		return e.Code == protocol.CodeTooLarge
	case ErrOccupied:
		return e.Code == protocol.CodeConflict && e.Reason == ReasonOccupied
	case ErrLeased:
		return e.Code == protocol.CodeConflict && e.Reason == ReasonLeased
	case ErrBusy:
		return e.Code == protocol.CodeBusy || e.Code == protocol.CodeConflict && e.Reason == ""
	case ErrUnavailable:
		return e.Code == protocol.CodeUnavailable
	case ErrDamaged:
		return e.Code == protocol.CodeDamaged
	case ErrUnknownResult:
		return e.Code == protocol.CodeUnknownResult
	}
	return false
}

// goesOn reports whether the result of an item may come yet.
func (e *Error) goesOn() bool {
	if e.Op != "result" {
		return false
	}
	switch e.Code {
	case protocol.CodeNotFound:
		return e.Reason == ReasonPending
	case protocol.CodeConflict:
		return e.Reason == ""
	case protocol.CodeTimeout, protocol.CodeBusy, protocol.CodeUnavailable, protocol.CodeUnknownResult:
		return true
	}
	return false
}

// Unwrap returns the cause if the error is no answer: nats.ErrNoResponders, or the error
// of the context.
func (e *Error) Unwrap() error { return e.cause }

// inDoubt is the error of a request that is given up. If an earlier attempt is open, the refusal of the last
// attempt does not mean that nothing will be done: another bridge may have the earlier one.
func inDoubt(err error, open bool) error {
	var e *Error
	if !open || !errors.As(err, &e) || protocol.IsAboutAnother(e.Code, e.Reason) {
		return err
	}
	switch e.Code {
	case protocol.CodeForbidden, protocol.CodeConflict, protocol.CodeBusy, protocol.CodeUnavailable, protocol.CodeDamaged:
		return &Error{
			Op: e.Op, Queue: e.Queue, Code: protocol.CodeUnknownResult,
			Description: fmt.Sprintf("an attempt was not answered, and the last one was refused: %s (%d)", e.Description, e.Code),
		}
	}
	return err
}

// hasCode reports whether an error is that of a request, with a code.
func hasCode(err error, code int) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// itemOf returns the item of a bundle that an error is about, nil if it is about all.
func itemOf(m *nats.Msg) *int {
	var a protocol.ErrorResponse
	if len(m.Data) == 0 || json.Unmarshal(m.Data, &a) != nil {
		return nil
	}
	return a.Error.Item
}

// answered returns the error in an answer, or nil if the answer is no error.
func answered(m *nats.Msg, op, queue string) *Error {
	if len(m.Header) == 0 {
		return nil
	}
	text := m.Header.Get(micro.ErrorHeader)
	code, err := strconv.Atoi(m.Header.Get(micro.ErrorCodeHeader))
	if err == nil {
		return &Error{
			Op: op, Queue: queue, Code: code, Reason: Reason(m.Header.Get(protocol.HeaderReason)), Progress: m.Header.Get(protocol.HeaderProgress),
			Description: text, item: itemOf(m),
		}
	}
	// An item cannot look like this: it has an id, and never a status.
	if protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data) {
		return &Error{
			Op: op, Queue: queue, Code: protocol.CodeUnavailable, cause: nats.ErrNoResponders,
			Description: "no bridge is there",
		}
	}
	return nil
}
