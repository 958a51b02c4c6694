package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// edit is a request that removes an item or moves it to another priority.
type edit struct {
	change
	id fdbpq.ID
}

func (e *edit) Read(*codec.Wire) (f *failure.Failure) {
	if f = codec.NoOptions(e.Msg, e.Subject.Verb.String()); f == nil {
		e.id, f = codec.ReadID(e.Subject.ID)
	}
	return f
}

// found answers which item was changed, or that there is none.
func (e *edit) found(found bool, priority int64, err error) error {
	if err == nil && !found {
		e.Failure = failure.NoItem(e.Subject.Queue, e.Subject.ID)
		return nil
	}
	return e.did(protocol.Changed{ID: e.Subject.ID, Priority: priority}, err)
}

// removal removes an item.
type removal struct{ edit }

func makeRemove(subjects.Verb) work { return new(removal) }

func (r *removal) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	priority, found, err := q.Remove(tx, r.id)
	return nil, r.found(found, priority, err)
}

func (r *removal) count(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}

// move gives an item another priority.
type move struct{ edit }

func makeMove(subjects.Verb) work { return new(move) }

func (m *move) apply(tx kv.Tx, q fdbpq.Queue) ([]fdbpq.Event, error) {
	found, err := q.Move(tx, m.id, m.Subject.Priority)
	return nil, m.found(found, m.Subject.Priority, err)
}
