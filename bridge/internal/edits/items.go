package edits

import (
	"errors"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// itemEdit is an edit of one item: it cancels, removes, moves or requeues the item, or revokes its lease.
type itemEdit struct {
	change
	id fdbpq.ID
}

func (e *itemEdit) Read(*codec.Wire) *failure.Failure {
	return e.readID(codec.NoOptions(e.Msg, e.Subject.Verb.String()))
}

// readID reads which item is meant, unless the options of the request are wrong.
func (e *itemEdit) readID(wrong *failure.Failure) (f *failure.Failure) {
	if wrong != nil {
		return wrong
	}
	e.id, f = codec.ReadID(e.Subject.ID)
	return f
}

// found answers which item was changed, or that there is none.
func (e *itemEdit) found(found bool, priority int64, err error) error {
	if err == nil && !found {
		e.Failure = failure.NoItem(e.Subject.Queue, e.Subject.ID)
		return nil
	}
	return e.did(protocol.Changed{ID: e.Subject.ID, Priority: priority}, err)
}

// move gives an item another priority.
type move struct{ itemEdit }

func Move(subjects.Verb) desk.Work { return new(move) }

func (m *move) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	found, err := at.Queue.Move(at.Tx, m.id, m.Subject.Priority)
	return nil, m.found(found, m.Subject.Priority, err)
}

// removal removes an item.
type removal struct{ itemEdit }

func Remove(subjects.Verb) desk.Work { return new(removal) }

func (r *removal) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	removed, err := at.Queue.Remove(at.Tx, r.id)
	return removed.Events, r.found(removed.Found, removed.Priority, err)
}

func (r *removal) Tally(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}

// cancel ends an item, and says to its caller and to its holder that it was cancelled.
type cancel struct {
	itemEdit
	how   fdbpq.Cancellation
	ended bool // the item, by this request
}

func Cancel(subjects.Verb) desk.Work { return new(cancel) }

func (c *cancel) Read(*codec.Wire) (f *failure.Failure) {
	c.how, f = codec.ReadCancel(c.Msg, c.Subject.Verb.String())
	return c.readID(f)
}

func (c *cancel) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	done, err := at.Queue.Cancel(at.Tx, c.id, c.how)
	c.ended = done.Found && done.Finished.IsZero()
	switch {
	case errors.Is(err, fdbpq.ErrWorked):
		c.Failure = failure.Explain(err)
		return nil, nil
	case err == nil && !done.Found:
		return nil, c.found(false, 0, nil)
	}
	answer := protocol.Cancelled{ID: c.Subject.ID, Priority: done.Priority, Outcome: protocol.Finish(done.Finish), Deliveries: done.Deliveries}
	if !done.Finished.IsZero() {
		answer.FinishedAt = done.Finished.UTC()
	}
	return done.Events, c.did(answer, err)
}

func (c *cancel) Tally(tally *request.Tally) {
	if c.Failure == nil && c.ended {
		tally[request.Removed]++
	}
}

// requeue pushes a dead letter to the queue that it comes from.
type requeue struct {
	itemEdit
	to     string // where it comes from, "" for wherever
	pushed string // queue that it was pushed to
}

func Requeue(subjects.Verb) desk.Work { return new(requeue) }

func (r *requeue) Read(*codec.Wire) *failure.Failure {
	return r.readID(codec.ReadOptionsOf("requeue", r.Msg, r.Subject.Verb.String(), "to", func(name string, value any) (is bool, f *failure.Failure) {
		if is = name == "to"; is {
			r.to, f = codec.ReadString(name, value)
		}
		if is && f == nil {
			f = codec.CheckQueueName(r.to)
		}
		return is, f
	}))
}

func (r *requeue) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	done, err := at.Queue.Requeue(at.Tx, r.id, r.to)
	switch {
	case err != nil:
	case !done.Found:
		r.Failure = failure.NoItem(r.Subject.Queue, r.Subject.ID)
	case done.Err != nil:
		r.Failure = failure.Explain(done.Err)
	default:
		r.pushed = done.To
		r.body = codec.AppendPubAck(r.body[:0], done.To, &done.Pushed)
	}
	return done.Events, err
}

func (r *requeue) Tally(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}

func (r *requeue) Answer(re *request.Responder) {
	re.Stats.Moved(r.pushed, request.FlowIn, 1)
	re.Stats.Queues.Count(r.pushed, &request.Tally{request.Pushed: 1})
	r.change.Answer(re)
}

// revoke takes the lease of an item away.
type revoke struct {
	itemEdit
	which fdbpq.Revocation
}

func Revoke(subjects.Verb) desk.Work { return new(revoke) }

func (r *revoke) Read(*codec.Wire) (f *failure.Failure) {
	r.which, f = codec.ReadRevoke(r.Msg, r.Subject.Verb.String())
	return r.readID(f)
}

func (r *revoke) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	done, err := at.Queue.Revoke(at.Tx, r.id, r.which)
	if err == nil && done.Err != nil {
		r.Failure = failure.Explain(done.Err)
		return nil, nil
	}
	if err == nil && !done.Found {
		return nil, r.found(false, 0, nil)
	}
	answer := protocol.Revoked{ID: r.Subject.ID, Priority: done.Priority, State: protocol.State(done.State), Deliveries: done.Deliveries}
	switch {
	case done.Dead:
		answer.State = protocol.StateDead
	case done.State == "":
		answer.State = protocol.StateGone
	}
	return done.Events, r.did(answer, err)
}
