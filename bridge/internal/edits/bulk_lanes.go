package edits

import (
	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
)

// BulkLanes are the lanes of bulk operations.
type BulkLanes struct {
	*batch.Lanes[*Bulk]
	responder *request.Responder
	queues    bulkQueues
}

// NewBulkLanes returns the lanes of bulk operations. Each of them works on a copy of base.
func NewBulkLanes(base desk.Lane) *BulkLanes {
	ls := &BulkLanes{responder: base.Responder, queues: bulkQueues{all: make(map[string]bool)}}
	ls.Lanes = desk.NewLanes(base, func(l *desk.Lane) batch.Worker[*Bulk] { return &bulkWorker{Lane: l, queues: &ls.queues} })
	return ls
}

// Enter hands a page of a bulk operation to its lane, or refuses it.
func (ls *BulkLanes) Enter(queue string, b *Bulk) {
	if ls.queues.enter(queue) {
		ls.Submit(queue, b)
	} else {
		ls.responder.Refuse(&b.Request, errBulkBusy)
	}
}
