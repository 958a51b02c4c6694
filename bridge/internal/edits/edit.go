package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
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
