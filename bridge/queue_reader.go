package bridge

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// queueStats are the numbers of a queue in the data that STATS shows of the endpoint
// info.
type queueStats struct {
	Ready   int64   `json:"ready"`
	Leased  int64   `json:"leased"`
	Delayed int64   `json:"delayed"`
	Oldest  float64 `json:"oldest"`
	Waiting int     `json:"waiting"`
}

// queueReader reads the numbers of queues.
type queueReader struct {
	store *fdbpq.Store
	waits *waits
}

// statsReaders is how many queues are read at the same time: over a network, reading
// many queues one by one would take seconds.
const statsReaders = 16

// stats reads the first queues, up to a limit. With an error it also returns the
// queues that it has read.
func (q *queueReader) stats(ctx context.Context, most int) (map[string]queueStats, error) {
	var names []string
	err := q.store.View(ctx, func(r kv.Reader) (err error) {
		names, err = q.store.Queues(r, "", most)
		return err
	})
	if err != nil {
		return nil, err
	}
	queues := make(map[string]queueStats, len(names))
	var mu sync.Mutex
	var readers sync.WaitGroup
	for part := range slices.Chunk(names, max(1, (len(names)+statsReaders-1)/statsReaders)) {
		readers.Go(func() {
			found, partErr := q.statsOf(ctx, part)
			mu.Lock()
			defer mu.Unlock()
			maps.Copy(queues, found)
			err = errors.Join(err, partErr)
		})
	}
	readers.Wait()
	return queues, err
}

func (q *queueReader) statsOf(ctx context.Context, names []string) (map[string]queueStats, error) {
	queues := make(map[string]queueStats, len(names))
	err := q.store.View(ctx, func(r kv.Reader) error {
		clear(queues)
		for _, name := range names {
			i, err := q.store.Queue(name).Inspect(r)
			if err != nil {
				return err
			}
			if i == nil {
				continue
			}
			queues[name] = queueStats{
				Ready: i.Ready, Leased: i.Leased, Delayed: i.Delayed,
				Oldest: ageOfNext(i, time.Now()), Waiting: q.waits.at(name),
			}
		}
		return nil
	})
	return queues, err
}
