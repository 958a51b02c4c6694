package client

import (
	"errors"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// Errors to tell answers apart with errors.Is.
var (
	// ErrEmpty: there was nothing to pop or peek at, or nothing arrived in the
	// time given. [Error.Reason] says why.
	ErrEmpty = errors.New("nothing there")

	// ErrNotFound: there is no such item or no such queue.
	ErrNotFound = errors.New("not found")

	// ErrLeaseLost: the item is not leased to the caller any more, and what was
	// to be done with it was not done. [Error.Reason] says why.
	ErrLeaseLost = errors.New("lease lost")

	// ErrTooLarge: the item is larger than the NATS server lets messages be.
	ErrTooLarge = errors.New("too large")

	// ErrOccupied: something else stands where an item was to be imported.
	ErrOccupied = errors.New("occupied")

	// ErrBusy: the bridge has too much to do, or the queue is full. Nothing was
	// done.
	ErrBusy = errors.New("busy")

	// ErrUnavailable: no bridge is there, or its store cannot commit. Nothing was
	// done.
	ErrUnavailable = errors.New("unavailable")

	// ErrDamaged: what was asked for cannot be read, because a file of the store is
	// damaged. Nothing was done, and trying again does not help.
	ErrDamaged = errors.New("store damaged")

	// ErrUnknownResult: it is not known whether it was done, because no answer
	// came.
	ErrUnknownResult = errors.New("unknown result")
)

// Errors of the client itself.
var (
	// ErrNotLeased: the item was popped without a lease, so there is nothing to
	// settle.
	ErrNotLeased = errors.New("item is not leased")

	// ErrSettled: the item was settled already by the same handle.
	ErrSettled = errors.New("item was settled already")
)

// Reason says why there is nothing, or why a lease is lost.
type Reason string

// Why there is nothing to pop, or no such thing.
const (
	ReasonEmpty   Reason = "empty"
	ReasonLeased  Reason = "leased"  // all that is left is leased
	ReasonDelayed Reason = "delayed" // all that is left is delayed
	ReasonPaused  Reason = "paused"
	ReasonUnknown Reason = "unknown" // no such queue, or no such item
)

// Why a lease is lost.
const (
	ReasonGone    Reason = "gone"    // the item was settled or removed
	ReasonTaken   Reason = "taken"   // somebody else has it
	ReasonExpired Reason = "expired" // it ran out
)

// What there is too much of, in an [ErrBusy] of code 429.
const (
	ReasonBusy       Reason = "busy"       // requests in flight, at the bridge
	ReasonFull       Reason = "full"       // items in the queue
	ReasonRemembered Reason = "remembered" // ids that the queue remembers
)

// ReasonOccupied says that something else stands where an item was to be imported.
const ReasonOccupied Reason = "occupied"

// Codes of answers, as docs/protocol.md lists them.
const (
	codeBadRequest    = 400
	codeForbidden     = 403
	codeNotFound      = 404
	codeTimeout       = 408
	codeConflict      = 409
	codeLeaseLost     = 410
	codeTooLarge      = 413
	codeBusy          = 429
	codeUnavailable   = 503
	codeUnknownResult = 504
	codeDamaged       = 506
)

// Error is a bridge's answer to a request that it did not carry out, or what
// stands for one that did not come.
type Error struct {
	Op          string // what was asked for: push, pop, …
	Queue       string // on which queue, if on one
	Code        int
	Reason      Reason // of codes 404, 410 and 429
	Description string

	cause error
}

func (e *Error) Error() string {
	on := e.Op
	if e.Queue != "" {
		on += " " + e.Queue
	}
	return fmt.Sprintf("%s: %s (%d)", on, e.Description, e.Code)
}

// Is makes errors.Is tell answers apart.
func (e *Error) Is(target error) bool {
	looked := e.Op == opPop || e.Op == opPeek
	switch target {
	case ErrEmpty:
		return e.Code == codeTimeout || e.Code == codeNotFound && looked
	case ErrNotFound:
		return e.Code == codeNotFound && (!looked || e.Reason == ReasonUnknown)
	case ErrLeaseLost:
		return e.Code == codeLeaseLost
	case ErrTooLarge:
		return e.Code == codeTooLarge
	case ErrOccupied:
		return e.Code == codeConflict && e.Reason == ReasonOccupied
	case ErrBusy:
		return e.Code == codeBusy || e.Code == codeConflict && e.Reason != ReasonOccupied
	case ErrUnavailable:
		return e.Code == codeUnavailable
	case ErrDamaged:
		return e.Code == codeDamaged
	case ErrUnknownResult:
		return e.Code == codeUnknownResult
	}
	return false
}

// Unwrap returns what the client knows the error from, when it is not an answer:
// nats.ErrNoResponders, or what ended the context.
func (e *Error) Unwrap() error { return e.cause }

// again says whether the request may be sent again after this answer: nothing
// was done, or doing it twice is like doing it once.
func (e *Error) again(repeatable bool) bool {
	switch e.Code {
	case codeBusy, codeUnavailable:
		return true
	case codeConflict:
		return e.Reason != ReasonOccupied
	case codeUnknownResult:
		return repeatable && e.cause == nil
	}
	return false
}

// Headers of answers that are no items.
const (
	headerStatus = "Status"
	headerReason = "PQ-Reason"
)

// answered returns the error that a message stands for, nil when it is none.
func answered(m *nats.Msg, op, queue string) *Error {
	if len(m.Header) == 0 {
		return nil
	}
	text := m.Header.Get(micro.ErrorHeader)
	code, err := strconv.Atoi(m.Header.Get(micro.ErrorCodeHeader))
	if err == nil {
		return &Error{Op: op, Queue: queue, Code: code, Reason: Reason(m.Header.Get(headerReason)), Description: text}
	}
	// An item cannot look like this: it has an id, and never a status.
	if len(m.Data) == 0 && m.Header.Get(headerStatus) == strconv.Itoa(codeUnavailable) {
		return &Error{
			Op: op, Queue: queue, Code: codeUnavailable, cause: nats.ErrNoResponders,
			Description: "no bridge is there",
		}
	}
	return nil
}
