package edits

import (
	"sync"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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
