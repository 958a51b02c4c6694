//go:build fdb

package fdb_test

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"
	"github.com/apple/foundationdb/bindings/go/src/fdb/subspace"
	"github.com/apple/foundationdb/bindings/go/src/fdb/tuple"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
)

// The benchmarks tell what FoundationDB gives here: the documented recipe on
// apple's own bindings, one transaction an item; plain sets, which no queue can
// beat item by item; and transactions of many items through the engine. Run
//
//	go test -tags fdb -run '^$' -bench . -benchtime 3s ./fdbpq/kv/fdb
//
// and read the column items/s; cpu-µs/item is what this process, client library
// included, spends on one.

const (
	payloadSize = 100
	batchItems  = 200
)

// clients runs n jobs on as many goroutines as asked and reports items a second.
func clients(b *testing.B, count, itemsPerJob int, job func() error) {
	b.Helper()
	var (
		wg   sync.WaitGroup
		next atomic.Int64
		fail atomic.Pointer[error]
	)
	begin := cpuTime(b)
	b.ResetTimer()
	for range count {
		wg.Go(func() {
			for next.Add(1) <= int64(b.N) && fail.Load() == nil {
				if err := job(); err != nil {
					fail.Store(&err)
				}
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	if err := fail.Load(); err != nil {
		b.Fatal(*err)
	}
	items := float64(b.N * itemsPerJob)
	b.ReportMetric(items/b.Elapsed().Seconds(), "items/s")
	b.ReportMetric(float64((cpuTime(b)-begin).Microseconds())/items, "cpu-µs/item")
}

// cpuTime is what this process has used.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func payload() []byte {
	value := make([]byte, payloadSize)
	rand.Read(value)
	return value
}

// itemKey is the recipe's: priority, count, random.
func itemKey(items subspace.Subspace, count int64) apple.Key {
	random := make([]byte, 20)
	rand.Read(random)
	return items.Pack(tuple.Tuple{0, count, random})
}

// recipe opens a cluster as the recipe's programs do, with n items pushed.
func recipe(b *testing.B, n int) (apple.Database, subspace.Subspace) {
	b.Helper()
	cluster := fdbtest.Shared(b)
	apple.MustAPIVersion(730)
	db, err := apple.OpenDatabase(cluster.File)
	if err != nil {
		b.Fatal(err)
	}
	items := subspace.FromBytes(fdbtest.Prefix())
	for begin := 0; begin < n; begin += 1000 {
		_, err := db.Transact(func(tr apple.Transaction) (any, error) {
			for i := begin; i < min(n, begin+1000); i++ {
				tr.Set(itemKey(items, int64(i)), payload())
			}
			return nil, nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return db, items
}

// BenchmarkRecipePop is the plain pop: read the first item, clear it.
func BenchmarkRecipePop(b *testing.B) {
	for _, count := range []int{1, 8, 64} {
		b.Run(fmt.Sprintf("clients=%d", count), func(b *testing.B) {
			db, items := recipe(b, b.N)
			var runs atomic.Int64
			clients(b, count, 1, func() error {
				_, err := db.Transact(func(tr apple.Transaction) (any, error) {
					runs.Add(1)
					rows, err := tr.GetRange(items, apple.RangeOptions{Limit: 1}).GetSliceWithError()
					if err != nil {
						return nil, err
					}
					if len(rows) == 0 {
						return nil, fmt.Errorf("the queue is empty")
					}
					tr.Clear(rows[0].Key)
					return nil, nil
				})
				return err
			})
			b.ReportMetric(float64(runs.Load())/float64(b.N)-1, "conflicts/op")
		})
	}
}

// BenchmarkRecipePush is the recipe's push: snapshot read of the last item of
// the priority, set the next one.
func BenchmarkRecipePush(b *testing.B) {
	for _, count := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("clients=%d", count), func(b *testing.B) {
			db, items := recipe(b, 0)
			level := items.Sub(0)
			clients(b, count, 1, func() error {
				value := payload()
				_, err := db.Transact(func(tr apple.Transaction) (any, error) {
					rows, err := tr.Snapshot().GetRange(level, apple.RangeOptions{Limit: 1, Reverse: true}).GetSliceWithError()
					if err != nil {
						return nil, err
					}
					next := int64(0)
					if len(rows) > 0 {
						key, err := items.Unpack(rows[0].Key)
						if err != nil {
							return nil, err
						}
						next = key[1].(int64) + 1
					}
					key := itemKey(items, next)
					if err := tr.AddReadConflictKey(key); err != nil {
						return nil, err
					}
					tr.Set(key, value)
					return nil, nil
				})
				return err
			})
		})
	}
}

// BenchmarkSet is one set a transaction, on apple's bindings and through the
// engine.
func BenchmarkSet(b *testing.B) {
	for _, count := range []int{1, 64, 256} {
		b.Run(fmt.Sprintf("bindings/clients=%d", count), func(b *testing.B) {
			db, items := recipe(b, 0)
			clients(b, count, 1, func() error {
				key, value := itemKey(items, 0), payload()
				_, err := db.Transact(func(tr apple.Transaction) (any, error) {
					tr.Set(key, value)
					return nil, nil
				})
				return err
			})
		})
		b.Run(fmt.Sprintf("engine/clients=%d", count), func(b *testing.B) {
			db := open(b, fdbtest.Shared(b), string(fdbtest.Prefix()))
			items := subspace.FromBytes(nil)
			clients(b, count, 1, func() error {
				key, value := itemKey(items, 0), payload()
				return db.Update(b.Context(), func(tx kv.Tx) error { tx.Set(key, value); return nil })
			})
		})
	}
}

// BenchmarkGet is one read a transaction.
func BenchmarkGet(b *testing.B) {
	for _, count := range []int{1, 64} {
		b.Run(fmt.Sprintf("clients=%d", count), func(b *testing.B) {
			db := open(b, fdbtest.Shared(b), string(fdbtest.Prefix()))
			update(b, db, func(tx kv.Tx) error { tx.Set([]byte("k"), payload()); return nil })
			clients(b, count, 1, func() error {
				return db.View(b.Context(), func(r kv.Reader) error { _, err := r.Get([]byte("k")); return err })
			})
		})
	}
}

// batchKey sorts by count.
func batchKey(count uint64) []byte { return binary.BigEndian.AppendUint64([]byte("item/"), count) }

// BenchmarkBatchPush pushes many items a transaction, with one row that all of
// them count in.
func BenchmarkBatchPush(b *testing.B) {
	for _, count := range []int{1, 4} {
		b.Run(fmt.Sprintf("clients=%d", count), func(b *testing.B) {
			db := open(b, fdbtest.Shared(b), string(fdbtest.Prefix()))
			var last atomic.Uint64
			value := payload()
			clients(b, count, batchItems, func() error {
				first := last.Add(batchItems)
				return db.Update(b.Context(), func(tx kv.Tx) error {
					if _, err := tx.Get([]byte("state")); err != nil {
						return err
					}
					for i := range uint64(batchItems) {
						tx.Set(batchKey(first+i), value)
					}
					tx.Add([]byte("length"), batchItems)
					return nil
				})
			})
		})
	}
}

// BenchmarkBatchPop pops many items a transaction as the core does: by
// snapshot, with a conflict on what was taken.
func BenchmarkBatchPop(b *testing.B) {
	for _, count := range []int{1, 4} {
		b.Run(fmt.Sprintf("clients=%d", count), func(b *testing.B) {
			db := open(b, fdbtest.Shared(b), string(fdbtest.Prefix()))
			value := payload()
			for batch := range uint64(b.N) {
				update(b, db, func(tx kv.Tx) error {
					for i := range uint64(batchItems) {
						tx.Set(batchKey(batch*batchItems+i), value)
					}
					return nil
				})
			}
			clients(b, count, batchItems, func() error {
				return db.Update(b.Context(), func(tx kv.Tx) error {
					if _, err := tx.Get([]byte("state")); err != nil {
						return err
					}
					pairs, err := tx.Snapshot().Range([]byte("item/"), []byte("item0"), kv.RangeOptions{Limit: batchItems})
					if err != nil {
						return err
					}
					if len(pairs) != batchItems {
						return fmt.Errorf("found %d items", len(pairs))
					}
					for _, pair := range pairs {
						tx.Conflict(pair.Key)
						tx.Clear(pair.Key)
					}
					tx.Add([]byte("length"), -batchItems)
					return nil
				})
			})
			b.ReportMetric(float64(db.Metrics().Conflicts)/float64(b.N), "conflicts/op")
		})
	}
}
