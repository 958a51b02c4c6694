// Package failure describes why a request was not served: a status that clients know, and a text that says what is
// wrong and what was expected.
package failure

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Failure is the reason for which a request was not served, in the form of an answer.
type Failure struct {
	Code        int
	Text        string // what is wrong, and what is allowed
	Description string // instead of the code's usual one
	Reason      protocol.Reason
	Item        *int   // the item of a bundle that the failure is about; nil: none
	Giver       string // the id of the store whose link refuses

	Progress   string    // of an item that has not ended: how far it is
	ProgressAt time.Time // when its holder has said so
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

// Newf returns a failure with a status.
func Newf(code int, format string, args ...any) *Failure {
	return &Failure{Code: code, Text: plain(fmt.Sprintf(format, args...))}
}

// OfItem returns a failure of a bundle about one of its items.
func (f *Failure) OfItem(i int) *Failure {
	of := *f
	of.Text, of.Item = fmt.Sprintf("item %d: %s", i, f.Text), &i
	return &of
}

// BadRequest is the failure of an error whose text says what is wrong and what is allowed.
func BadRequest(err error) *Failure {
	if errors.Is(err, subjects.ErrTooLong) {
		return Newf(403, "%s", err)
	}
	return Newf(400, "%s", err)
}

// Describe is the short text that clients know for a status.
func (f *Failure) Describe() string {
	if f.Description != "" {
		return f.Description
	}
	return protocol.Description(f.Code)
}

// Nothing says why there is no item.
func Nothing(queue string, reason fdbpq.Reason) *Failure {
	f := &Failure{Code: 404, Reason: protocol.Reason(reason)}
	queue = subjects.Own(queue)
	switch reason {
	case fdbpq.ReasonUnknown:
		f.Text = "no queue " + queue
	case fdbpq.ReasonPaused:
		f.Text = "queue " + queue + " is paused"
	case fdbpq.ReasonRate:
		f.Text = "queue " + queue + ": its rate allows no delivery now"
	case fdbpq.ReasonBlocked:
		f.Text = "queue " + queue + ": the ready items wait for their keys: for others of the key, its rate, or the end of its pause"
	case fdbpq.ReasonLeased:
		f.Text = "queue " + queue + ": no item is ready, some are leased"
	case fdbpq.ReasonDelayed:
		f.Text = "queue " + queue + ": no item is ready, some are delayed"
	default:
		f.Text = "queue " + queue + ": nothing there"
	}
	return f
}

// NothingIn says why a pop or a peek from a band found no item.
func NothingIn(queue string, band fdbpq.Band, found *fdbpq.Popped) *Failure {
	f := Nothing(queue, found.Reason)
	if found.Reason == fdbpq.ReasonBand {
		f.Text = fmt.Sprintf("queue %s: none is ready in the band %s, %d outside it", subjects.Own(queue), band, found.Ready)
	}
	return f
}

// NoQueue says that there is no such queue.
func NoQueue(queue string) *Failure {
	f := Nothing(queue, fdbpq.ReasonUnknown)
	f.Description = protocol.DescriptionNotFound
	return f
}

// notThere says that there is no such thing.
func notThere(text string) *Failure {
	return &Failure{Code: 404, Description: protocol.DescriptionNotFound, Reason: protocol.ReasonUnknown, Text: text}
}

// NoItem says that a queue has no such item.
func NoItem(queue, id string) *Failure {
	return notThere("queue " + subjects.Own(queue) + " has no item " + id)
}

// NoResult says that a queue has no result of such an item.
func NoResult(queue, id string) *Failure {
	return notThere("queue " + subjects.Own(queue) + " has neither the item " + id + " nor its result")
}

// NoSchedule says that a queue has no such schedule.
func NoSchedule(queue, name string) *Failure {
	return notThere("queue " + subjects.Own(queue) + " has no schedule " + name)
}

// NoSource says that a queue has no such source.
func NoSource(queue, name string) *Failure {
	return notThere("queue " + subjects.Own(queue) + " has no source " + name)
}

// NoLink says that a queue has no such link.
func NoLink(queue, name string) *Failure {
	return notThere("queue " + subjects.Own(queue) + " has no link " + name)
}

// PausedLink says that a link gives nothing because it is paused.
func PausedLink(queue, name string) *Failure {
	return &Failure{Code: 404, Reason: protocol.Reason(fdbpq.ReasonPaused), Text: "the link " + name + " of queue " + subjects.Own(queue) + " is paused"}
}

// ofLink says why a link gives nothing.
func ofLink(err *link.Error) *Failure {
	switch err.Refusal {
	case link.Forbidden:
		return &Failure{Code: 403, Text: err.Error()}
	case link.GiverBehind, link.TakerBehind:
		return &Failure{Code: 409, Text: err.Error(), Description: protocol.DescriptionBehind, Reason: protocol.Reason(err.Refusal)}
	}
	return BadRequest(err)
}

// Explain turns an error of the core or the store into a failure.
func Explain(err error) *Failure {
	var f *Failure
	var lost *fdbpq.LostError
	var config *fdbpq.ConfigError
	var timetable *schedule.Error
	var feed *source.Error
	var refused *link.Error
	var pending *fdbpq.PendingError
	switch {
	case errors.As(err, &f):
		return f
	case errors.As(err, &lost):
		return &Failure{Code: 410, Text: lost.Error(), Reason: protocol.Reason(lost.Reason)}
	case errors.As(err, &config), errors.As(err, &timetable), errors.As(err, &feed):
		return BadRequest(err)
	case errors.As(err, &refused):
		return ofLink(refused)
	case errors.Is(err, fdbpq.ErrHeld):
		return &Failure{Code: 409, Text: err.Error(), Description: protocol.DescriptionHeld, Reason: protocol.ReasonHeld}
	case errors.Is(err, link.ErrTooMany):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonLinks}
	case errors.Is(err, schedule.ErrTooMany):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonSchedules}
	case errors.Is(err, source.ErrTooMany):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonSources}
	case errors.Is(err, fdbpq.ErrOccupied):
		return &Failure{Code: 409, Text: err.Error(), Description: protocol.DescriptionOccupied, Reason: protocol.ReasonOccupied}
	case errors.Is(err, fdbpq.ErrLeased):
		return &Failure{Code: 409, Text: err.Error() + ", so it cannot be replaced", Description: protocol.DescriptionLeased, Reason: protocol.ReasonLeased}
	case errors.Is(err, fdbpq.ErrWorked):
		return &Failure{Code: 409, Text: err.Error() + ", and the request spares leased ones", Description: protocol.DescriptionLeased, Reason: protocol.ReasonLeased}
	case errors.Is(err, fdbpq.ErrNotLeased):
		return &Failure{Code: 409, Text: err.Error() + ", so no lease can be revoked", Description: protocol.DescriptionNotLeased, Reason: protocol.ReasonNotLeased}
	case errors.Is(err, fdbpq.ErrAnotherKey):
		return &Failure{Code: 409, Text: err.Error() + ", so it cannot be replaced", Description: protocol.DescriptionAnotherKey, Reason: protocol.ReasonAnotherKey}
	case errors.Is(err, fdbpq.ErrLeaseRequired):
		return &Failure{Code: 409, Text: err.Error(), Description: protocol.DescriptionLeaseRequired, Reason: protocol.ReasonLeaseRequired}
	case errors.As(err, &pending):
		return &Failure{
			Code: 404, Text: err.Error(), Description: protocol.DescriptionPending, Reason: protocol.ReasonPending,
			Progress: pending.Progress, ProgressAt: pending.ProgressAt,
		}
	case errors.Is(err, fdbpq.ErrUnkept):
		return &Failure{Code: 409, Text: err.Error() + ": expected " + protocol.HeaderResultTTL + " with its push", Description: protocol.DescriptionUnkept, Reason: protocol.ReasonUnkept}
	case errors.Is(err, fdbpq.ErrOnlyMin):
		return &Failure{Code: 409, Text: err.Error(), Description: protocol.DescriptionOnlyMin, Reason: protocol.ReasonOnlyMin}
	case errors.Is(err, fdbpq.ErrPopIDReused), errors.Is(err, fdbpq.ErrTime), errors.Is(err, fdbpq.ErrKey), errors.Is(err, fdbpq.ErrNoKey),
		errors.Is(err, fdbpq.ErrWeight), errors.Is(err, fdbpq.ErrUnique), errors.Is(err, fdbpq.ErrMsgID),
		errors.Is(err, fdbpq.ErrPlace), errors.Is(err, fdbpq.ErrAttempts), errors.Is(err, fdbpq.ErrNoFence):
		return BadRequest(err)
	case errors.Is(err, fdbpq.ErrNoQueue):
		return &Failure{Code: 403, Text: "no such queue, and pushes do not make one here: admin.config does"}
	case errors.Is(err, fdbpq.ErrRequeue), errors.Is(err, fdbpq.ErrTenants):
		return &Failure{Code: 403, Text: err.Error()}
	case errors.Is(err, fdbpq.ErrHandOver):
		return &Failure{Code: 403, Text: err.Error() + " with admin.config"}
	case errors.Is(err, fdbpq.ErrNoDeadLetterQueue):
		return &Failure{Code: 403, Text: err.Error() + " with admin.config"}
	case errors.Is(err, fdbpq.ErrFull):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonFull}
	case errors.Is(err, fdbpq.ErrNoRoom):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
	case errors.Is(err, fdbpq.ErrRemembered):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonRemembered}
	case errors.Is(err, fdbpq.ErrResults):
		return &Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonResults}
	case errors.Is(err, fdbpq.ErrContent), errors.Is(err, kv.ErrTooLarge):
		return &Failure{Code: 413, Text: err.Error()}
	case errors.Is(err, kv.ErrUnknown):
		return &Failure{Code: 504, Text: "not known whether it was done: repeat it with the same Nats-Msg-Id"}
	case errors.Is(err, kv.ErrDamaged):
		return &Failure{Code: 506, Text: "the store is damaged where this request needs it, nothing was done: trying again does not help, its operator has to act"}
	case IsOutage(err) && errors.Is(err, syscall.ENOSPC):
		return &Failure{Code: 503, Text: "the store cannot commit, because its disk is full; nothing was done: try again"}
	case IsOutage(err):
		return &Failure{Code: 503, Text: "the store cannot commit now, nothing was done: try again"}
	}
	return &Failure{Code: 500, Text: err.Error()}
}

// IsOutage reports whether an error is an outage of the store, which concerns all requests, and no failure of one
// request.
func IsOutage(err error) bool {
	return errors.Is(err, kv.ErrUnavailable) || errors.Is(err, kv.ErrUnknown) || errors.Is(err, kv.ErrClosed) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// Quote makes a client's text fit for an error text: quoted, in ASCII, and shortened.
func Quote(s string) string {
	if len(s) > mostQuoted {
		return strconv.QuoteToASCII(s[:mostQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// JSON does the same for a JSON value, which has quotation marks of its own if it is a string.
func JSON(value []byte) string {
	if len(value) > mostQuoted {
		return strings.ToValidUTF8(string(value[:mostQuoted]), "") + "..."
	}
	return string(value)
}

const mostQuoted = 80 // bytes

// HeaderText makes a text fit for a header.
func HeaderText(s string) string {
	const most = 800
	if len(s) > most {
		s = s[:most] + "..."
	}
	clean := func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}
	return strings.Map(clean, plain(s))
}

// plain replaces the characters of durations that are not ASCII.
func plain(s string) string { return strings.ReplaceAll(s, "\u00b5s", "us") }
