package edits

import (
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Bulk is one page of a bulk operation, which changes the items of a queue that match a filter. It has a pool
// of its own, and transactions that it shares with nobody: others do not wait for it.
type Bulk struct {
	change
	page fdbpq.Bulk
	mark codec.BulkMark
	done fdbpq.BulkDone
}

func (b *Bulk) Read(*codec.Wire) (f *failure.Failure) {
	b.page, b.mark, f = codec.ReadBulk(b.Msg, &b.Subject)
	return f
}

// Act describes the request for the first page: the other pages follow by its cursor.
func (b *Bulk) Act() (done bool, details []any) {
	return !b.page.DryRun && b.page.After == nil, []any{"items", fdbpq.ReasonText(string(b.Msg.Data))}
}

// Apply does the page as far as it goes.
func (b *Bulk) Apply(at *desk.ChangeTx) (_ []fdbpq.Event, err error) {
	if b.done, err = at.Queue.Bulk(at.Tx, b.page); err != nil {
		return nil, b.did(nil, err)
	}
	if b.done.Err != nil {
		b.Failure = failure.Explain(b.done.Err)
		return nil, nil
	}
	answer := protocol.BulkAnswer{Done: b.done.Done, Looked: b.done.Looked}
	if b.done.Next != nil {
		answer.Next = b.mark.Cursor(b.done.Next)
	}
	if b.done.Stopped != nil {
		answer.Stopped = protocol.StoppedFull
	}
	return b.done.Events, b.did(answer, nil)
}

// changed is how many items the page has changed.
func (b *Bulk) changed() int {
	if b.page.DryRun {
		return 0
	}
	return b.done.Done
}

// BulkPool runs bulk operations.
type BulkPool struct {
	*batch.Pool[*Bulk]
	responder *request.Responder
	queues    bulkQueues
}

// NewBulkPool returns the pool of bulk operations. Each worker of it works on a copy of base.
func NewBulkPool(base desk.Desk) *BulkPool {
	p := &BulkPool{responder: base.Responder, queues: bulkQueues{all: make(map[string]bool)}}
	p.Pool = desk.NewPool(base, func(l *desk.Desk) batch.Worker[*Bulk] { return &bulkWorker{Desk: l, queues: &p.queues} })
	return p
}

// Enter hands a page of a bulk operation to the pool, or refuses it.
func (p *BulkPool) Enter(queue string, b *Bulk) {
	if p.queues.enter(queue) {
		p.Submit(queue, b)
	} else {
		p.responder.Refuse(&b.Request, errBulkBusy)
	}
}

// bulkQueues are the queues with a page of a bulk operation under way.
type bulkQueues struct {
	mu  sync.Mutex
	all map[string]bool
}

// maxBulkQueues bounds them: each keeps the store busy. A tenant has its share of them.
const (
	maxBulkQueues   = 8
	maxBulkOfTenant = 2
)

var errBulkBusy = &failure.Failure{Code: 429, Reason: protocol.ReasonBusy, Text: "a bulk operation of this queue is under way, or those of many others: ask again"}

// enter begins a page, and reports false if it is refused: its queue has a page under way, or its tenant or the bridge has as
// many as it may.
func (q *bulkQueues) enter(queue string) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.all[queue] || len(q.all) == maxBulkQueues {
		return false
	}
	if tenant := subjects.Tenant(queue); tenant != "" {
		others := 0
		for other := range q.all {
			if subjects.Tenant(other) == tenant {
				others++
			}
		}
		if others == maxBulkOfTenant {
			return false
		}
	}
	q.all[queue] = true
	return true
}

func (q *bulkQueues) leave(queue string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.all, queue)
}

// bulkWorker is the worker of bulk operations: one page at a time.
type bulkWorker struct {
	*desk.Desk
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
	if !desk.Pays(l.Desk, b, l.Tenant(), 0) || !desk.ReserveServes(l.Desk, b) {
		return 1, nil
	}
	receiving, to, _ := l.Receiving(0, 0) // a requeue adds an item in the place of another one
	runs := 0
	err := l.Update(func(tx kv.Tx) error {
		if runs++; runs > 1 {
			b.page.Limit = (b.page.Limit + 1) / 2
		}
		_, err := desk.Make(b, desk.NewChangeTx(l.Desk, tx, receiving, to))
		return err
	})
	desk.EndAdmission(to, err)
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
	desk.WeighEach(l.Desk, requests)
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
