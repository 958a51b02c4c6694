package desk

import (
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// ChangeTx is a transaction that makes changes to a queue.
type ChangeTx struct {
	Tx        kv.Tx
	Queue     fdbpq.Queue
	Room      func(items, bytes int) error // why the transaction may not add new items of some bytes
	Schedules *schedule.Schedules
	Runners   *feeds.Runners
}

// NewChangeTx returns a run of a transaction of the lane, whose rows count if the queue has a tenant. What an earlier run has taken of
// the tenant's room is given back.
func NewChangeTx(l *Lane, tx kv.Tx, queue fdbpq.Queue, to *tenants.Admission) *ChangeTx {
	to.Undo()
	return &ChangeTx{
		Tx: l.Metered(tx), Queue: queue, Schedules: l.Schedules, Runners: l.Runners,
		Room: func(items, bytes int) error { return l.Room(to, items, bytes) },
	}
}
