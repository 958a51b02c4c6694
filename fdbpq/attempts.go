package fdbpq

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/internal/reason"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// An item remembers the last leases that ended without success, in its own row. Every return
// writes that row anyway, so attempts cost neither a row nor a read, and they go where the item
// goes: to the dead letters, and back by a requeue.

// Attempt is a lease that ended without success.
type Attempt struct {
	N          int64     // of the delivery, but greater than that of each attempt that the item remembers: a requeue begins deliveries anew
	Start, End time.Time // by the wall clock of the process that ended it; a zero Start is not known
	Holder     string    // name that the holder gave itself, which may be empty
	Outcome    Outcome
	Reason     string // that its end gave, which may be empty
}

const (
	// MaxAttemptReason bounds the bytes of a reason that are remembered.
	MaxAttemptReason = 200

	// MaxHolder bounds the bytes of what a holder calls itself.
	MaxHolder = 128

	// maxAttemptsSize bounds all attempts of an item. Each counts attemptSize, about what JSON
	// takes for it, and its texts.
	maxAttemptsSize = 4 << 10
	attemptSize     = 128
)

// ErrAttempts: the attempts of an imported item are not as they should be.
var ErrAttempts = errors.New("attempts")

// ErrHolder: a holder gives itself a name that is not allowed.
var ErrHolder = fmt.Errorf("holder: expected 1 to %d bytes of UTF-8 without control characters", MaxHolder)

// CheckHolder returns an error unless a holder may call itself so.
func CheckHolder(name string) error {
	if name == "" || len(name) > MaxHolder || !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return ErrHolder
	}
	return nil
}

// Attempts are the last attempts of an item as its row has them: the last one first, so that
// old ones are cut off.
type Attempts string

// Last is the number of the last attempt, 0 before the first attempt.
func (a Attempts) Last() int64 {
	if a == "" {
		return 0
	}
	n, _, _ := tuple.ConsumeInt([]byte(a))
	return n
}

// reason is the reason of the last attempt, which may be empty.
func (a Attempts) reason() string {
	if a == "" {
		return ""
	}
	last, _, _ := consumeAttempt([]byte(a))
	return last.Reason
}

// All returns the attempts, the oldest first.
func (a Attempts) All() ([]Attempt, error) {
	var all []Attempt
	for rest := []byte(a); len(rest) > 0; {
		one, after, err := consumeAttempt(rest)
		if err != nil {
			return nil, fmt.Errorf("damaged attempt: %w", err)
		}
		all, rest = append(all, one), after
	}
	slices.Reverse(all)
	return all, nil
}

// append packs an attempt.
func (a *Attempt) append(b []byte) []byte {
	start := int64(0)
	if !a.Start.IsZero() {
		start = a.Start.UnixNano()
	}
	b = tuple.AppendInt(tuple.AppendInt(tuple.AppendInt(b, a.N), start), a.End.UnixNano())
	return tuple.AppendString(tuple.AppendString(tuple.AppendString(b, a.Holder), string(a.Outcome)), a.Reason)
}

func consumeAttempt(b []byte) (a Attempt, rest []byte, err error) {
	r := tuple.Read(b)
	a.N = r.Int()
	start, end := r.Int(), r.Int()
	a.Holder, a.Outcome, a.Reason = r.Text(), Outcome(r.Text()), r.Text()
	if err := r.Err(); err != nil {
		return Attempt{}, nil, err
	}
	if start != 0 {
		a.Start = time.Unix(0, start)
	}
	a.End = time.Unix(0, end)
	return a, r.Rest(), nil
}

// size is what the attempt counts of maxAttemptsSize.
func (a *Attempt) size() int { return attemptSize + len(a.Holder) + len(a.Reason) }

// packAttempts packs the last attempts, as many as may be kept. The oldest come first.
func packAttempts(all []Attempt, most int64) Attempts {
	var b []byte
	size := 0
	for n := len(all) - 1; n >= 0 && int64(len(all)-n) <= most; n-- {
		if size += all[n].size(); size > maxAttemptsSize {
			break
		}
		b = all[n].append(b)
	}
	return Attempts(b)
}

// checkAttempts returns an error unless an imported item may have these attempts.
func checkAttempts(all []Attempt) error {
	last := int64(0)
	for i := range all {
		a := &all[i]
		switch {
		case a.N <= last || a.N > maxCount:
			return fmt.Errorf("%w: number %d behind %d: expected rising numbers", ErrAttempts, a.N, last)
		case !slices.Contains(outcomes, a.Outcome):
			return fmt.Errorf("%w: the outcome is %q: expected one of %q", ErrAttempts, a.Outcome, outcomes)
		case a.Holder != "" && CheckHolder(a.Holder) != nil:
			return fmt.Errorf("%w: %w", ErrAttempts, ErrHolder)
		case a.Reason != ReasonText(a.Reason):
			return fmt.Errorf("%w: a reason: expected up to %d bytes of UTF-8 without control characters", ErrAttempts, MaxAttemptReason)
		case a.End.IsZero():
			return fmt.Errorf("%w: number %d has no end: expected the time when it ended", ErrAttempts, a.N)
		}
		for _, t := range []time.Time{a.Start, a.End} {
			if !t.IsZero() && !time.Unix(0, t.UnixNano()).Equal(t) {
				return fmt.Errorf("%w: at %s: expected a time in the years from 1678 to 2262", ErrAttempts, t.Format(time.RFC3339))
			}
		}
		last = a.N
	}
	return nil
}

// ReasonText is what is remembered of a reason: its first bytes, in UTF-8, with spaces for control
// characters.
func ReasonText(s string) string { return reason.Text(s, MaxAttemptReason) }

// cutReason returns the first kilobyte of a reason.
func cutReason(reason string) string {
	return strings.ToValidUTF8(reason[:min(len(reason), maxReason)], "")
}

const maxReason = 1 << 10

// attemptLog has items remember how their leases end.
type attemptLog struct{ *queueRows }

// record has an item remember the lease that ends, while there is room for it in the store, and in the bytes of the queue.
func (log attemptLog) record(l *layout.Item, e *ending) error {
	if log.store.room.full() != nil {
		return nil
	}
	most := log.state.config.Attempts
	if most == 0 {
		l.Attempts = ""
		return nil
	}
	before := Attempts(l.Attempts)
	a := Attempt{
		N: max(before.Last()+1, l.Deliveries()), End: log.store.Display(e.at),
		Holder: l.Holder, Outcome: e.outcome, Reason: ReasonText(e.reason),
	}
	if l.Since > 0 {
		a.Start = log.store.Display(l.Since)
	}
	all, err := before.All()
	if err != nil {
		all = nil // what can be read no more is no reason to keep the item from its queue
	}
	grown := l.Envelope
	grown.Attempts = string(packAttempts(append(all, a), most))
	if grown.WithOverhead() > l.Overhead {
		if crowded, err := log.capacity.crowded(); crowded || err != nil {
			return err
		}
	}
	l.Attempts = grown.Attempts
	return nil
}

// maxCount leaves room for pushes behind what was imported.
const maxCount = 1 << 62
