package reads

import (
	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// Lanes are the lanes of queries.
type Lanes struct {
	*batch.Lanes[Query]
	responder *request.Responder
}

// New returns the lanes of queries. Each of them works on a copy of base.
func New(base desk.Lane, o Options) *Lanes {
	base.Batch.Wait = queryWait / 2
	return &Lanes{responder: base.Responder, Lanes: desk.NewLanes(base, func(l *desk.Lane) batch.Worker[Query] {
		return &worker{&Lane{Lane: l, Options: o}}
	})}
}

// Enter hands a query to its lane, or refuses it.
func (ls *Lanes) Enter(queue string, q Query) {
	if !ls.Submit(queue, q) {
		ls.responder.Refuse(q.Head(), errSlow)
	}
}
