package bridge

import (
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// bulk does something to the items of a queue that match a filter, one page of them. It has a lane
// of its own, and transactions that it shares with nobody: others do not wait for it.
type bulk struct {
	change
	page fdbpq.Bulk
	mark codec.BulkMark
	done fdbpq.BulkDone
}

func (b *bulk) Read(*codec.Wire) (f *failure.Failure) {
	b.page, b.mark, f = codec.ReadBulk(b.Msg, &b.Subject)
	return f
}

// Act describes the request for the first page: the other pages follow by its cursor.
func (b *bulk) Act() (done bool, details []any) {
	return !b.page.DryRun && b.page.After == nil, []any{"items", fdbpq.ReasonText(string(b.Msg.Data))}
}

// apply does the page as far as it goes.
func (b *bulk) apply(at *changing) (_ []fdbpq.Event, err error) {
	if b.done, err = at.queue.Bulk(at.tx, b.page); err != nil {
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
func (b *bulk) changed() int {
	if b.page.DryRun {
		return 0
	}
	return b.done.Done
}

// bulks is the work of a lane of bulk operations: one at a time.
type bulks struct {
	*lane
	queues *bulkQueues
}

// Work serves the bulk operation of a queue.
func (l *bulks) Work(now batch.Batch[*bulk, batch.Alone]) { batch.Run(now.Requests, l) }

// maxRest bounds how long a bridge rests after a page.
const maxRest = time.Second

// Try does one page. After a conflict it is half as long. The answer to a page that is not the last
// one waits for as long as the page took: clients ask for the next one at once, and others need the
// store, too.
func (l *bulks) Try(requests []*bulk) (int, error) {
	started := time.Now()
	b := requests[0]
	if !l.pays(b, l.tenant(), 0) || !l.takes(b) {
		return 1, nil
	}
	receiving, to, _ := l.receiving(0, 0) // a requeue adds an item in the place of another one
	defer to.End()
	err := l.update(batch.Job[kv.Tx]{
		Weight: l.limits.BatchRequests, // it runs alone
		Again: func() error {
			b.page.Limit = (b.page.Limit + 1) / 2
			return nil
		},
		Do: func(tx kv.Tx) error {
			_, err := b.apply(l.changing(tx, receiving, to))
			return err
		},
	})
	b.RowsCost = tenants.CostOfRows(l.meter.End(), max(1, b.changed()))
	if err == nil {
		l.Stats.Ran(request.KindChange, 1, started)
		if b.done.Next != nil {
			time.Sleep(min(l.since(started), maxRest))
		}
	}
	return 1, err
}

// Answer answers a page.
func (l *bulks) Answer(requests []*bulk, err error) {
	l.queues.leave(l.queue.Name())
	weighEach(l.lane, requests)
	if err != nil {
		request.RefuseAll(l.Responder, requests, err)
		return
	}
	for _, b := range requests {
		if b.Failure == nil {
			l.tell(b)
		}
		answerChange(l.Responder, b)
	}
}

// tell counts what a page has done.
func (l *bulks) tell(b *bulk) {
	n := int64(b.changed())
	b.Share.Owe(int(n), 0)
	var tally request.Tally
	switch b.page.Verb {
	case fdbpq.BulkRequeue:
		to := subjects.Beside(l.queue.Name(), b.page.To)
		l.Stats.Moved(to, request.FlowIn, int(n))
		l.Stats.Queues.Count(to, &request.Tally{request.Pushed: n})
		fallthrough
	case fdbpq.BulkRemove:
		tally[request.Removed] = n
	}
	l.Stats.Queues.Count(l.queue.Name(), &tally)
	l.Events.Items(b.done.Events)
}

// bulkQueues are the queues of which a page is under way.
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

// enter begins a page, and reports false if it has to wait for others.
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
