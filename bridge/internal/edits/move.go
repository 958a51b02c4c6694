package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// move gives an item another priority.
type move struct{ itemEdit }

func Move(subjects.Verb) desk.Work { return new(move) }

func (m *move) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	found, err := at.Queue.Move(at.Tx, m.id, m.Subject.Priority)
	return nil, m.found(found, m.Subject.Priority, err)
}
