package fdbpq_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// stateChanges are operations on a queue that write its state, or look at it.
var stateChanges = []func(q fdbpq.Queue, tx kv.Tx, rng *rand.Rand) error{
	func(q fdbpq.Queue, tx kv.Tx, rng *rand.Rand) error {
		_, err := q.Configure(tx, fmt.Appendf(nil, `{"max_length":%d,"backoff":["1s","%ds"],"key_rate":"%d/s","fair":""}`, rng.IntN(3)*100, 1+rng.IntN(3), 1+rng.IntN(2)))
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error {
		_, err := q.Configure(tx, []byte(`{"key_rate":"","fair":"priority"}`))
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, rng *rand.Rand) error {
		_, err := q.SetKey(tx, "k", fmt.Appendf(nil, `{"limit":%d}`, 1+rng.IntN(3)))
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error {
		_, err := q.SetKey(tx, "k", []byte(`{"limit":null}`))
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, rng *rand.Rand) error {
		_, err := q.Push(tx, fdbpq.NewItem{Key: pick(rng, "", "k")}, fdbpq.NewItem{Unique: pick(rng, "", "u")})
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error {
		_, err := q.Lease(tx, fdbpq.Selection{Limit: 2}, time.Minute)
		return err
	},
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error { return q.Pause(tx) },
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error { return q.Resume(tx) },
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error { _, err := q.Make(tx); return err },
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error { _, err := q.Purge(tx); return err },
	func(q fdbpq.Queue, tx kv.Tx, _ *rand.Rand) error { _, err := q.Delete(tx); return err },
}

// Goroutines share the states of queues that they change: the states stay what their rows say. The race detector sees
// whoever changes one in place.
func TestGoroutinesShareStates(t *testing.T) {
	t.Parallel()
	db, err := placeLocal(t)()
	if err != nil {
		t.Fatal(err)
	}
	f := newFixture(t, db)
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	seed := randomSeed(t)
	var wg sync.WaitGroup
	for g := range uint64(8) {
		wg.Go(func() {
			rng := rand.New(rand.NewPCG(seed, g))
			for range 50 {
				queue, change := pick(rng, "one", "one", "other"), pick(rng, stateChanges...)
				again := rng.IntN(2) == 0
				if err := changesState(t.Context(), f.Store, queue, change, again, rng); err != nil {
					t.Error(err)
					return
				}
				if err := fdbpq.CheckStates(t.Context(), f.Store, f.base); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// changesState runs an operation, perhaps twice in one transaction. A queue may refuse it.
func changesState(
	ctx context.Context, s *fdbpq.Store, queue string, change func(fdbpq.Queue, kv.Tx, *rand.Rand) error, again bool, rng *rand.Rand,
) error {
	session := s.Session()
	defer session.Release()
	err := session.Update(ctx, func(tx kv.Tx) error {
		return s.In(tx, func(w *fdbpq.Work) error {
			err := change(w.Queue(queue), tx, rng)
			if err == nil && again {
				err = change(w.Queue(queue), tx, rng)
			}
			return err
		})
	})
	var refused *fdbpq.ConfigError
	if errors.Is(err, fdbpq.ErrNoQueue) || errors.Is(err, fdbpq.ErrLeaseRequired) || errors.As(err, &refused) {
		err = nil
	}
	return err
}
