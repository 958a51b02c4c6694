//go:build fdb

package fdbpq_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fdb"
	"github.com/pqbridge/pqbridge/internal/testkit/fdbtest"
	"github.com/pqbridge/pqbridge/testenv"
)

// BenchmarkKeyedSettlements tells what one transaction costs that settles items of so many
// keys: processor time of this process, the client library included.
//
//	go test -tags fdb ./fdbpq -run '^$' -bench KeyedSettlements -benchtime 20x
func BenchmarkKeyedSettlements(b *testing.B) {
	for _, keys := range []int{64, 512} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			db, err := fdb.Open(fdbtest.Shared(b).File, fdb.Options{Prefix: fdbtest.Prefix(), OpenTimeout: time.Minute})
			if err != nil {
				b.Fatal(err)
			}
			defer db.Close()
			store := testenv.OpenStore(b, db, fdbpq.Options{Exclusive: true})
			q := store.Queue("q")
			update(b, store, func(tx kv.Tx) error {
				_, err := q.Configure(tx, []byte(`{"key_limit":1}`))
				return err
			})
			var used time.Duration
			for b.Loop() {
				update(b, store, func(tx kv.Tx) error {
					return store.In(tx, func(w *fdbpq.Work) error {
						for i := range keys {
							if _, err := w.Queue("q").Push(tx, fdbpq.NewItem{Key: fmt.Sprint("key-", i), Payload: make([]byte, 100)}); err != nil {
								return err
							}
						}
						return nil
					})
				})
				var leases []fdbpq.Lease
				for _, item := range depthLease(b, store, keys) {
					leases = append(leases, *item.Lease)
				}
				before := processTime(b)
				update(b, store, func(tx kv.Tx) error {
					return store.In(tx, func(w *fdbpq.Work) error {
						q := w.Queue("q")
						q.PrefetchLeases(tx, leases...)
						err := q.PrefetchKeys(tx, leases...)
						for _, l := range leases {
							if err == nil {
								_, err = q.Ack(tx, l)
							}
						}
						return err
					})
				})
				used += processTime(b) - before
			}
			b.ReportMetric(float64(used.Microseconds())/1e3/float64(b.N), "cpu-ms")
		})
	}
}
