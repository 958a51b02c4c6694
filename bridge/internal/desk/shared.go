package desk

import (
	"cmp"
	"context"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/subjects"
)

// The number of shared transactions of one kind of work under way at a time. More transactions are smaller and cost
// more. Fewer make queues wait for each other. On a store behind a network more transactions hide its latency.
const (
	sharedExclusive = 2
	sharedOthers    = 4
)

// NewShared returns the transactions of one kind of work, which several queues may share.
func NewShared(base *Lane, exclusive bool) *batch.Shared[kv.Tx] {
	store, running := base.Store, sharedOthers
	if exclusive {
		running = sharedExclusive
	}
	options := batch.SharedOptions[kv.Tx]{
		Update: func(ctx context.Context, fn func(kv.Tx) error) error {
			session := store.Session()
			defer session.Release()
			return session.Update(ctx, fn)
		},
		Outage:  failure.IsOutage,
		Running: running,
		Weight:  base.Batch.Requests,
		Bytes:   base.Batch.Bytes,
		Slow:    cmp.Or(base.Slow, SlowBatch),
	}
	if base.Tenants != nil {
		options.Owner, options.Share = subjects.Tenant, tenantShare
	}
	return batch.NewShared(options)
}

// tenantShare bounds the requests of one tenant in a shared transaction. Other tenants wait for the end of it, so fewer
// requests are better for them. The tenant itself then needs more transactions.
const tenantShare = 8

// SlowBatch is how long the part of a queue in a shared transaction may take. Measured in wall time, so on a busy machine
// some queues run alone without need.
const SlowBatch = 20 * time.Millisecond
