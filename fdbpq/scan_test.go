package fdbpq_test

import (
	"fmt"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A process that reads ahead by a stale state of a queue pops nothing by it when another
// one has purged or reconfigured the queue.
func TestReadAheadByStaleState(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		defer db.Close()
		var stores []*fdbpq.Store
		for range 2 {
			store, err := fdbpq.Open(t.Context(), db, fdbpq.Options{})
			if err != nil {
				t.Fatal(err)
			}
			stores = append(stores, store)
		}
		one, other := stores[0], stores[1]
		update := func(store *fdbpq.Store, fn func(kv.Tx, fdbpq.Queue) error) {
			t.Helper()
			session := store.Session()
			defer session.Release()
			if err := session.Update(t.Context(), func(tx kv.Tx) error { return fn(tx, store.Queue("q")) }); err != nil {
				t.Fatal(err)
			}
		}
		push := func(payloads ...string) {
			t.Helper()
			update(other, func(tx kv.Tx, q fdbpq.Queue) error {
				for _, payload := range payloads {
					if _, err := q.Push(tx, fdbpq.NewItem{Payload: []byte(payload)}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		pops := func(end fdbpq.End, n int, want ...string) {
			t.Helper()
			var got []string
			update(one, func(tx kv.Tx, q fdbpq.Queue) error {
				popped, err := q.Pop(tx, fdbpq.Selection{End: end, Limit: n})
				got = nil
				for _, item := range popped.Items {
					got = append(got, string(item.Payload))
				}
				return err
			})
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("took %q, want %q", got, want)
			}
		}
		push("a", "b", "c")
		pops(fdbpq.Min, 1, "a")
		update(other, func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Purge(tx)
			return err
		})
		pops(fdbpq.Min, 10)
		push("d", "e", "f", "g")
		pops(fdbpq.Max, 1, "g")
		update(other, func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Configure(tx, []byte(`{"ties":"oldest"}`))
			return err
		})
		pops(fdbpq.Max, 2, "d", "e")
		pops(fdbpq.Min, 10, "f")
	})
}

// The head of a paused queue is not read.
func TestPausedQueueIsNotRead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one")
		f.update(f.Queue("q").Pause)
		for knows := range 2 { // the first pop learns it
			f.update(func(tx kv.Tx) error {
				counted := &readRows{Tx: tx}
				popped, err := f.Queue("q").Pop(counted, oneItem)
				if popped.Reason != fdbpq.ReasonPaused || knows == 1 && counted.rows > 0 {
					t.Errorf("reason %q after %d rows", popped.Reason, counted.rows)
				}
				return err
			})
		}
	})
}
