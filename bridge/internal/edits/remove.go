package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// removal removes an item.
type removal struct{ itemEdit }

func Remove(subjects.Verb) desk.Work { return new(removal) }

func (r *removal) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	priority, found, err := at.Queue.Remove(at.Tx, r.id)
	return []fdbpq.Event{{Type: fdbpq.EventFinished, Queue: at.Queue.Name(), ID: r.id}}, r.found(found, priority, err)
}

func (r *removal) Tally(tally *request.Tally) {
	if r.Failure == nil {
		tally[request.Removed]++
	}
}
