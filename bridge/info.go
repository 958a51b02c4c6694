package bridge

import (
	"encoding/json"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// queueInfo is the answer to info.
type queueInfo struct {
	Queue   string       `json:"queue"`
	Ready   int64        `json:"ready"`
	Leased  int64        `json:"leased"`
	Delayed int64        `json:"delayed"`
	Waiting int          `json:"waiting"`
	Bytes   int64        `json:"bytes"`
	Oldest  float64      `json:"oldest"`
	Rates   rates        `json:"rates"`
	Paused  bool         `json:"paused"`
	Config  fdbpq.Config `json:"config"`
}

func (b *Bridge) info(reader kv.Reader, q fdbpq.Queue, r *request) error {
	i, err := q.Inspect(reader)
	if err != nil {
		return err
	}
	if i == nil {
		r.outcome.failure = noQueue(q.Name())
		return nil
	}
	r.outcome.body, err = json.Marshal(queueInfo{
		Queue: q.Name(), Ready: i.Ready, Leased: i.Leased, Delayed: i.Delayed, Bytes: i.Bytes,
		Waiting: b.waits.count(q.Name()), Rates: b.stats.rates(q.Name()),
		Oldest: age(i), Paused: i.Paused, Config: i.Config,
	})
	return err
}

// age is how many seconds ago the item that pop.min would take was pushed, 0
// when there is none.
func age(i *fdbpq.Inspection) float64 {
	if i.Next == nil {
		return 0
	}
	return max(0, time.Since(i.Next.Pushed).Seconds())
}

// queueList is the answer to _sys.list.
type queueList struct {
	Total  int      `json:"total"`
	Offset int64    `json:"offset"`
	Limit  int      `json:"limit"`
	Queues []string `json:"queues"`
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
	var err error
	r.outcome.body, err = json.Marshal(queueList{
		Total: len(q.names), Offset: r.listing.offset, Limit: r.listing.page.Limit, Queues: q.names[first:last],
	})
	return err
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

// bridgeInfo is the answer to _sys.info.
type bridgeInfo struct {
	Version string     `json:"version"`
	Store   string     `json:"store"`
	StoreID string     `json:"store_id"`
	Prefix  string     `json:"prefix"`
	Limits  infoLimits `json:"limits"`
	Uptime  float64    `json:"uptime"` // seconds
	Damage  []string   `json:"damage,omitempty"`
}

type infoLimits struct {
	Requests   int            `json:"requests"`
	Bytes      int64          `json:"bytes"`
	Waiters    int            `json:"waiters"`
	Batch      int            `json:"batch"`
	BatchBytes int            `json:"batch_bytes"`
	Wait       fdbpq.Duration `json:"wait"`
	Lease      fdbpq.Duration `json:"lease"`
	Payload    int64          `json:"payload"` // and headers, together
}

func (b *Bridge) describe(r *request) (err error) {
	limits := b.options.Limits
	r.outcome.body, err = json.Marshal(bridgeInfo{
		Version: b.options.Version, Store: b.options.StoreName, StoreID: b.store.ID(),
		Prefix: b.options.Prefix, Uptime: time.Since(b.service.started).Seconds(), Damage: b.options.Damage(),
		Limits: infoLimits{
			Requests: limits.Requests, Bytes: limits.Bytes, Waiters: limits.Waiters,
			Batch: fdbpq.MaxBatch, BatchBytes: fdbpq.MaxBatchBytes,
			Wait: fdbpq.Duration(maxWait), Lease: fdbpq.Duration(fdbpq.MaxLease),
			Payload: b.room.payload(),
		},
	})
	return err
}
