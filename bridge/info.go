package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/protocol"
)

func (b *Bridge) info(reader kv.Reader, q fdbpq.Queue, r *request) error {
	i, err := q.Inspect(reader)
	if err != nil {
		return err
	}
	if i == nil {
		r.outcome.failure = noQueue(q.Name())
		return nil
	}
	return r.answerJSON(protocol.Info{
		Queue: q.Name(), Ready: i.Ready, Leased: i.Leased, Delayed: i.Delayed, Bytes: i.Bytes,
		Waiting: b.waits.count(q.Name()), Rates: b.stats.rates(q.Name()),
		Oldest: age(i), Paused: i.Paused, Config: Config(i.Config),
	})
}

// age is how many seconds ago the item that pop.min would take was pushed, 0
// when there is none.
func age(i *fdbpq.Inspection) float64 {
	if i.Next == nil {
		return 0
	}
	return max(0, time.Since(i.Next.Pushed).Seconds())
}

const queuesPerRead = 1000

// queueNames are the names of all queues in one state of the store, for however
// many requests: there may be many queues, and the total is part of every answer.
type queueNames struct {
	bridge *Bridge
	reader kv.Reader
	names  []string // nil until they are asked for
}

func (q *queueNames) list(r *request) error {
	if q.names == nil {
		names := []string{}
		if err := q.bridge.eachQueue(q.reader, func(name string) bool {
			names = append(names, name)
			return true
		}); err != nil {
			return err
		}
		q.names = names
	}
	first := int(min(r.listing.offset, int64(len(q.names))))
	last := min(first+r.listing.page.Limit, len(q.names))
	return r.answerJSON(protocol.Queues{
		Total: len(q.names), Offset: r.listing.offset, Limit: r.listing.page.Limit, Queues: q.names[first:last],
	})
}

// eachQueue calls fn with the names of the queues in order, until it says no.
func (b *Bridge) eachQueue(reader kv.Reader, fn func(name string) bool) error {
	for after := ""; ; {
		names, err := b.store.Queues(reader, after, queuesPerRead)
		if err != nil || len(names) == 0 {
			return err
		}
		for _, name := range names {
			if !fn(name) {
				return nil
			}
		}
		if len(names) < queuesPerRead {
			return nil
		}
		after = names[len(names)-1]
	}
}

// describe answers what the bridge is and what it takes.
func (b *Bridge) describe(r *request) error {
	limits := b.options.Limits
	return r.answerJSON(protocol.System{
		Version: b.options.Version, Store: b.options.StoreName, StoreID: b.store.ID(),
		Prefix: b.options.Prefix, Uptime: time.Since(b.service.started).Seconds(), Damage: b.options.Damage(),
		Limits: protocol.Limits{
			Requests: limits.Requests, Bytes: limits.Bytes, Waiters: limits.Waiters,
			Batch: fdbpq.MaxBatch, BatchBytes: fdbpq.MaxBatchBytes,
			Wait: protocol.Duration(protocol.MaxWait), Lease: protocol.Duration(fdbpq.MaxLease),
			Payload: b.room.payload(),
		},
	})
}
