package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// itemEdit is an edit of one item: it removes, moves or requeues the item, or revokes its lease.
type itemEdit struct {
	change
	id fdbpq.ID
}

func (e *itemEdit) Read(*codec.Wire) (f *failure.Failure) {
	if f = codec.NoOptions(e.Msg, e.Subject.Verb.String()); f == nil {
		e.id, f = codec.ReadID(e.Subject.ID)
	}
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
