package fdbpq_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// operation is something that can be done to a store and to the model. Of run,
// look and whole it has one: what runs in a transaction, what looks at the
// store, and what has transactions of its own.
type operation struct {
	name   string
	run    func(p *process, tx kv.Tx) (outcome, error)
	look   func(p *process, r kv.Reader) (outcome, error)
	whole  func(ctx context.Context, p *process) (outcome, error)
	expect func(m *model, at moment, got outcome) outcome

	settles bool        // a lost lease leaves the transaction as it is
	parts   []operation // of a joint one
	pops    string      // the queue that a pop by itself pops
	lists   string      // the queue that a list lists
	purges  string      // the queue that a purge empties

	// Of a bulk operation: the same about those items only that it finds in a model.
	amongThese func(before *model, at moment) operation
}

// lost reports whether an error is one that a joint transaction goes on after.
func (o operation) lost(kind string) bool { return o.settles && strings.HasPrefix(kind, "lost: ") }

// expectPart is what a part of a joint operation answers.
func (o operation) expectPart(m *model, at moment, got outcome) outcome {
	out := o.expect(m, at, got)
	if o.lost(out.Err) {
		return outcome{Events: []string{out.Err}}
	}
	return out
}

// kindOf names the kind of an error. Unexpected errors keep their text, so that no
// expectation fits them.
func kindOf(err error) string {
	var lost *fdbpq.LostError
	var config *fdbpq.ConfigError
	var timetable *schedule.Error
	var refused *link.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &refused):
		return strings.TrimSpace("link " + string(refused.Refusal))
	case errors.Is(err, link.ErrNone):
		return "no link"
	case errors.Is(err, fdbpq.ErrHeld):
		return "held"
	case errors.Is(err, source.ErrNone):
		return "no source"
	case errors.As(err, &lost):
		return "lost: " + string(lost.Reason)
	case errors.As(err, &config):
		return "config"
	case errors.As(err, &timetable):
		return "schedule"
	case errors.Is(err, schedule.ErrNone):
		return "no schedule"
	case errors.Is(err, fdbpq.ErrPopIDReused):
		return "replay"
	case errors.Is(err, fdbpq.ErrRemembered):
		return "remembered"
	case errors.Is(err, fdbpq.ErrHandOver):
		return "hand over"
	case errors.Is(err, fdbpq.ErrRequeue):
		return "requeue"
	case errors.Is(err, fdbpq.ErrWorked):
		return "worked"
	case errors.Is(err, fdbpq.ErrLeased):
		return "leased"
	case errors.Is(err, fdbpq.ErrNotLeased):
		return "not leased"
	case errors.Is(err, fdbpq.ErrNoFence):
		return "no fence"
	case errors.Is(err, fdbpq.ErrAttempts):
		return "attempts"
	case errors.Is(err, fdbpq.ErrCost):
		return "cost"
	case errors.Is(err, fdbpq.ErrProgress):
		return "progress"
	case errors.Is(err, fdbpq.ErrUnique):
		return "unique"
	case errors.Is(err, fdbpq.ErrAnotherKey):
		return "another key"
	case errors.Is(err, fdbpq.ErrLeaseRequired):
		return "lease required"
	case errors.Is(err, fdbpq.ErrOnlyMin):
		return "only min"
	case errors.Is(err, fdbpq.ErrNoQueue):
		return "no queue"
	case errors.Is(err, fdbpq.ErrContent):
		return "content"
	case errors.Is(err, fdbpq.ErrTime):
		return "time"
	case errors.Is(err, fdbpq.ErrResults):
		return "results"
	case errors.Is(err, fdbpq.ErrFull):
		return "full"
	case errors.Is(err, fdbpq.ErrOccupied):
		return "occupied"
	case errors.Is(err, fdbpq.ErrPlace):
		return "place"
	case errors.Is(err, fdbpq.ErrListKey):
		return "list key"
	case errors.Is(err, fdbpq.ErrListHolder):
		return "list holder"
	case errors.Is(err, fdbpq.ErrKey):
		return "key"
	}
	return "unexpected: " + err.Error()
}

// digest stands for content, which may be long.
func digest[T string | []byte](content T) string {
	if len(content) <= 40 {
		return string(content)
	}
	return fmt.Sprintf("%d bytes, sum %08x", len(content), crc32.ChecksumIEEE([]byte(content)))
}

// placeOf reads the place out of an id: the recipe's key.
func placeOf(id string) modelItem {
	b, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil {
		return modelItem{}
	}
	priority, rest, err := tuple.ConsumeInt(b)
	if err != nil {
		return modelItem{}
	}
	seq, rest, err := tuple.ConsumeInt(rest)
	if err != nil {
		return modelItem{}
	}
	return modelItem{priority: priority, seq: seq, tie: string(rest)}
}

func viewOf(item *fdbpq.Item) itemView {
	v := itemView{
		ID: item.ID.String(), Seq: item.Seq, Priority: item.Priority,
		Payload: digest(item.Payload), Headers: digest(item.Headers), Size: item.Size,
		Pushed: item.Pushed.UnixNano(), Deliveries: item.Deliveries, Endings: item.Endings, Key: item.Key, Cost: item.Cost,
	}
	if item.Dead != nil {
		v.Dead = *item.Dead
	}
	if l := item.Lease; l != nil {
		v.Fence, v.KeyFence, v.Expires, v.Backoff, v.queue, v.token = l.Fence, l.KeyFence, l.Expires.UnixNano(), l.Backoff, l.Queue, string(l.Token())
		v.ResultTTL, v.Progress, v.ProgressAt = item.ResultTTL, digest([]byte(item.Progress)), nanos(item.ProgressAt)
	}
	return v
}

func storedViewOf(stored *fdbpq.StoredItem) itemView {
	v := viewOf(&stored.Item)
	v.State, v.Due, v.Since, v.Fence, v.KeyFence, v.Until = stored.State, stored.Due, stored.Since, stored.Fence, stored.KeyFence, stored.Expires
	v.Holder, v.Held, v.Attempts, v.Cause = stored.Holder, stored.Held, attemptsOf(stored.Attempts), stored.Cause
	v.Unique, v.UntilLease, v.KeyAhead, v.ResultTTL = stored.Unique, stored.UniqueUntilLeased, stored.KeyAhead, stored.ResultTTL
	v.Progress, v.ProgressAt = digest([]byte(stored.Progress)), nanos(stored.ProgressAt)
	return v
}

func poppedOf(popped fdbpq.Popped) outcome {
	out := outcome{Reason: popped.Reason, Ready: popped.Ready, More: popped.More, Final: popped.Final, Events: eventsOf(popped.Events), Retry: popped.Retry}
	for i := range popped.Items {
		out.Items = append(out.Items, viewOf(&popped.Items[i]))
		out.Leased = popped.Leased
	}
	return out
}

func eventsOf(events []fdbpq.Event) []string {
	var shown []string
	for _, e := range events {
		if e.Type == fdbpq.EventFinished { // the results themselves are compared
			continue
		}
		shown = append(shown, showEvent(string(e.Type), e.Queue, e.ID.String(), e.Priority, e.Deliveries, e.Reason, e.DeadLetter)+
			showEndings(e.Endings)+lostBy(e.Holder, e.NotBefore, e.Fence))
	}
	return shown
}

// bothOf does several things in one transaction.
func bothOf(parts ...operation) operation {
	name := "together:"
	for _, part := range parts {
		name += " [" + part.name + "]"
	}
	return operation{
		name: name,
		run: func(p *process, tx kv.Tx) (outcome, error) {
			var all outcome
			for _, part := range parts {
				out, err := part.run(p, tx)
				if err != nil {
					return all, err // which the model follows as far as it went
				}
				all.add(out)
			}
			return all, nil
		},
		expect: func(m *model, at moment, got outcome) outcome {
			var all outcome
			for _, part := range parts {
				rest := got
				rest.Pushed = got.Pushed[min(len(got.Pushed), len(all.Pushed)):]
				rest.Items = got.Items[min(len(got.Items), len(all.Items)):]
				rest.Imported = got.Imported[min(len(got.Imported), len(all.Imported)):]
				rest.Batches = got.Batches[min(len(got.Batches), len(all.Batches)):]
				rest.Results = got.Results[min(len(got.Results), len(all.Results)):]
				out := part.expect(m, at, rest)
				if out.Err != "" {
					return out
				}
				all.add(out)
			}
			return all
		},
	}
}

// jointOf does several things in one transaction, which writes together what they change. It
// goes on after a lost lease, and others of the parts may look at what is there by then.
func jointOf(parts ...operation) operation {
	name := "joint:"
	for _, part := range parts {
		name += " [" + part.name + "]"
	}
	return operation{
		name:  name,
		parts: parts,
		run: func(p *process, tx kv.Tx) (all outcome, err error) {
			err = p.store.In(tx, func(w *fdbpq.Work) error {
				p.work = w
				defer func() { p.work = nil }()
				for _, part := range parts {
					do := part.run
					if do == nil {
						do = func(p *process, tx kv.Tx) (outcome, error) { return part.look(p, tx) }
					}
					out, err := do(p, tx)
					if kind := kindOf(err); part.lost(kind) {
						out, err = outcome{Events: []string{kind}}, nil
					}
					if err != nil {
						return err
					}
					all.add(out)
				}
				return nil
			})
			return all, err
		},
		expect: func(m *model, at moment, got outcome) outcome {
			var all outcome
			for _, part := range parts {
				rest := got
				rest.Pushed = got.Pushed[min(len(got.Pushed), len(all.Pushed)):]
				rest.Items = got.Items[min(len(got.Items), len(all.Items)):]
				rest.Imported = got.Imported[min(len(got.Imported), len(all.Imported)):]
				rest.Batches = got.Batches[min(len(got.Batches), len(all.Batches)):]
				rest.Results = got.Results[min(len(got.Results), len(all.Results)):]
				out := part.expectPart(m, at, rest)
				if out.Err != "" {
					return out
				}
				all.add(out)
			}
			return all
		},
	}
}

// add appends what a further part of a transaction answered, but for when to pop again: the
// sum would not say whose time it is.
func (o *outcome) add(other outcome) {
	o.Items = append(o.Items, other.Items...)
	o.Events = append(o.Events, other.Events...)
	o.Pushed = append(o.Pushed, other.Pushed...)
	o.Schedules = append(o.Schedules, other.Schedules...)
	o.Imported = append(o.Imported, other.Imported...)
	o.Reason += other.Reason
	o.Ready = o.Ready*1000 + other.Ready
	o.More = o.More || other.More
	o.Final = o.Final || other.Final
	o.OK = o.OK || other.OK
	o.N += other.N
	o.Batches = append(o.Batches, other.Batches...)
	o.Kept += other.Kept
	o.Reserved, o.Tokens = o.Reserved*1000+other.Reserved, o.Tokens*1000+other.Tokens
	o.Results = append(o.Results, other.Results...)
	if other.Config != (fdbpq.Config{}) {
		o.Config = other.Config
	}
}

// settled brings an outcome into the form in which two are compared: events
// come in no particular order, and what only the model or only the store knows
// does not count.
func (o outcome) settled() outcome {
	o.Events = slices.Sorted(slices.Values(o.Events))
	o.Items = seen(o.Items, func(v *itemView) { v.number, v.queue, v.token, v.backoff = 0, "", "", "" })
	o.Pushed = seen(o.Pushed, func(v *pushedView) { v.queue = "" })
	o.Batches = seen(o.Batches, func(v *batchView) { v.items = nil })
	o.Schedules = seen(o.Schedules, func(*scheduleView) {})
	o.Imported = seen(o.Imported, func(*importedView) {})
	return o
}

// seen is a copy of what can be seen of views: hide clears the rest.
func seen[T any](views []T, hide func(*T)) []T {
	views = append([]T(nil), views...)
	for i := range views {
		hide(&views[i])
	}
	return views
}
