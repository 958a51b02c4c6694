package fdbpq_test

import (
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// BenchmarkContent has items of several sizes pushed, leased and acknowledged, or popped for good, 32 in each transaction. It
// reports the processor time of an item: of its push, and of the rest.
func BenchmarkContent(b *testing.B) {
	const batch = 32
	for _, size := range []int{100, 1_000, 4_000, 16_000} {
		for _, leases := range []bool{false, true} {
			b.Run(fmt.Sprintf("bytes=%d/leases=%t", size, leases), func(b *testing.B) {
				db, err := local.Open(b.TempDir(), local.Options{NoSync: true})
				if err != nil {
					b.Fatal(err)
				}
				defer db.Close()
				store, err := fdbpq.Open(b.Context(), db, fdbpq.Options{Exclusive: true, Strict: true})
				if err != nil {
					b.Fatal(err)
				}
				q := store.Queue("jobs")
				update := func(fn func(tx kv.Tx) error) {
					if err := db.Update(b.Context(), fn); err != nil {
						b.Fatal(err)
					}
				}
				noise := make([]byte, 1<<20)
				for i := range noise {
					noise[i] = byte(rand.Uint32())
				}
				items := make([]fdbpq.NewItem, batch)
				push := func() {
					update(func(tx kv.Tx) error {
						for i := range items {
							items[i] = fdbpq.NewItem{Priority: int64(rand.IntN(100)), HasPriority: true, Payload: noise[rand.IntN(len(noise)-size):][:size]}
						}
						_, err := q.Push(tx, items...)
						return err
					})
				}
				for range 4096 / batch {
					push()
				}
				b.ResetTimer()
				var pushing, rest time.Duration
				for b.Loop() {
					begun := processTime(b)
					push()
					pushing += processTime(b) - begun
					begun = processTime(b)
					var popped fdbpq.Popped
					update(func(tx kv.Tx) (err error) {
						sel := fdbpq.Selection{Limit: batch, Band: &fdbpq.AllPriorities}
						if leases {
							popped, err = q.Lease(tx, sel, time.Minute)
						} else {
							popped, err = q.Pop(tx, sel)
						}
						return err
					})
					if leases {
						update(func(tx kv.Tx) error {
							for i := range popped.Items {
								if _, err := q.Ack(tx, *popped.Items[i].Lease); err != nil {
									return err
								}
							}
							return nil
						})
					}
					rest += processTime(b) - begun
				}
				b.ReportMetric(float64(pushing.Nanoseconds())/1e3/float64(b.N*batch), "push-µs/item")
				b.ReportMetric(float64(rest.Nanoseconds())/1e3/float64(b.N*batch), "rest-µs/item")
			})
		}
	}
}

func processTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
