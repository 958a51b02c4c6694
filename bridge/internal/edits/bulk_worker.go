package edits

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// bulkWorker is the worker of a lane of bulk operations: one page at a time.
type bulkWorker struct {
	*desk.Lane
	queues *bulkQueues
}

// Work serves the bulk operation of a queue.
func (l *bulkWorker) Work(pages []*Bulk) { batch.Run(pages, l) }

// maxRest bounds how long a bridge rests after a page.
const maxRest = time.Second

// Try does one page. After a conflict it is half as long. The answer to a page that is not the last
// one waits for as long as the page took: clients ask for the next one at once, and others need the
// store, too.
func (l *bulkWorker) Try(requests []*Bulk) (int, error) {
	started := time.Now()
	b := requests[0]
	if !desk.Pays(l.Lane, b, l.Tenant(), 0) || !desk.ReserveServes(l.Lane, b) {
		return 1, nil
	}
	receiving, to, _ := l.Receiving(0, 0) // a requeue adds an item in the place of another one
	runs := 0
	err := l.Update(func(tx kv.Tx) error {
		if runs++; runs > 1 {
			b.page.Limit = (b.page.Limit + 1) / 2
		}
		_, err := desk.Make(b, desk.NewChangeTx(l.Lane, tx, receiving, to))
		return err
	})
	desk.EndRoom(to, err)
	b.RowsCost = tenants.CostOfRows(l.Meter.End(), max(1, b.changed()))
	if err == nil {
		l.Stats.Ran(request.KindChange, 1, time.Since(started))
		if b.done.Next != nil {
			time.Sleep(min(l.Since(started), maxRest))
		}
	}
	return 1, err
}

// Answer answers a page.
func (l *bulkWorker) Answer(requests []*Bulk, err error) {
	l.queues.leave(l.Queue.Name())
	desk.WeighEach(l.Lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	for _, b := range requests {
		if b.Failure == nil {
			l.announce(b)
		}
		desk.AnswerChange(l.Responder, b)
	}
}

// announce counts what a page has done, and publishes its events.
func (l *bulkWorker) announce(b *Bulk) {
	n := int64(b.changed())
	b.Share.Owe(int(n), 0)
	var tally request.Tally
	switch b.page.Verb {
	case fdbpq.BulkRequeue:
		to := subjects.Beside(l.Queue.Name(), b.page.To)
		l.Stats.Moved(to, request.FlowIn, int(n))
		l.Stats.Queues.Count(to, &request.Tally{request.Pushed: n})
		fallthrough
	case fdbpq.BulkRemove:
		tally[request.Removed] = n
	}
	l.Stats.Queues.Count(l.Queue.Name(), &tally)
	l.Events.Items(b.done.Events)
}
