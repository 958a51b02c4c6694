package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// revoke takes the lease of an item away.
type revoke struct {
	itemEdit
	which fdbpq.Revocation
}

func Revoke(subjects.Verb) desk.Work { return new(revoke) }

func (r *revoke) Read(*codec.Wire) (f *failure.Failure) {
	if r.which, f = codec.ReadRevoke(r.Msg, r.Subject.Verb.String()); f == nil {
		r.id, f = codec.ReadID(r.Subject.ID)
	}
	return f
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
