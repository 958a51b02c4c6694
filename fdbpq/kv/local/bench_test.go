package local

import (
	"context"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The benchmarks work on a real directory. They measure what queues do, with
// rows of the shape that queues have: a prefix of the queue, a priority, a
// number that counts up, and 100 bytes of value.

const benchBatch = 64

func openBench(b *testing.B, noSync bool) *DB {
	b.Helper()
	db, err := Open(b.TempDir(), Options{NoSync: noSync})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	return db
}

func itemKey(buf []byte, queue, priority int, count uint64) []byte {
	buf = fmt.Appendf(buf[:0], "pq/queue-%06d/item/", queue)
	buf = append(buf, byte(priority))
	buf = binary.BigEndian.AppendUint64(buf, count)
	return binary.BigEndian.AppendUint64(buf, count*0x9e3779b97f4a7c15)
}

func prefixOf(queue, priority int) (begin, end []byte) {
	begin = fmt.Appendf(nil, "pq/queue-%06d/item/", queue)
	begin = append(begin, byte(priority))
	end = append([]byte(nil), begin...)
	end[len(end)-1]++
	return begin, end
}

// cpu returns the processor time that the process has used. On a machine that
// is busy otherwise it tells more than the time of day.
func cpu(b *testing.B) time.Duration {
	var u syscall.Rusage
	must(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func must(b *testing.B, err error) {
	if err != nil {
		b.Fatal(err)
	}
}

// pushBatch is the transaction of a push: items, a counter, a high-water mark.
func pushBatch(db *DB, queue, priority int, first uint64, value []byte) error {
	var key []byte
	return db.Update(context.Background(), func(tx kv.Tx) error {
		for i := range uint64(benchBatch) {
			key = itemKey(key, queue, priority, first+i)
			tx.Set(key, value)
		}
		tx.Add(fmt.Appendf(nil, "pq/queue-%06d/length", queue), benchBatch)
		tx.Max(fmt.Appendf(nil, "pq/queue-%06d/high", queue), first+benchBatch)
		return nil
	})
}

// popBatch is the transaction of a pop.
func popBatch(db *DB, queue int, begin, end []byte, reverse bool) (n int, err error) {
	err = db.Update(context.Background(), func(tx kv.Tx) error {
		pairs, err := tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: benchBatch, Reverse: reverse})
		if err != nil {
			return err
		}
		for _, p := range pairs {
			tx.Conflict(p.Key)
			tx.Clear(p.Key)
		}
		n = len(pairs)
		tx.Add(fmt.Appendf(nil, "pq/queue-%06d/length", queue), -int64(n))
		return nil
	})
	return n, err
}

// BenchmarkPop pops a million items and compares the first tenth with the last.
func BenchmarkPop(b *testing.B) {
	const items = 1_000_000
	for _, c := range []struct {
		name     string
		queues   int
		bands    int
		band     int // popped; the others stay
		reverse  bool
		wholeSet bool // the range is all bands
	}{
		{name: "head", queues: 1, bands: 1, wholeSet: true},
		{name: "tail", queues: 1, bands: 1, reverse: true, wholeSet: true},
		{name: "band", queues: 1, bands: 3, band: 1},
		{name: "queues=100", queues: 100, bands: 1, wholeSet: true},
	} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				db := openBench(b, true)
				value := make([]byte, 100)
				for i := uint64(0); i < items; i += benchBatch * uint64(c.queues*c.bands) {
					for q := range c.queues {
						for p := range c.bands {
							must(b, pushBatch(db, q, p, i/uint64(c.queues*c.bands), value))
						}
					}
				}
				b.StartTimer()
				pop(b, db, items/c.bands, c.queues, c.band, c.reverse)
			}
		})
	}
}

// pop empties the queues and reports the pace.
func pop(b *testing.B, db *DB, items, queues, band int, reverse bool) {
	var begins, ends [][]byte
	for q := range queues {
		begin, end := prefixOf(q, band)
		begins, ends = append(begins, begin), append(ends, end)
	}
	popped, mark := 0, 0
	start := cpu(b)
	last := start
	for q := 0; ; q = (q + 1) % queues {
		n, err := popBatch(db, q, begins[q], ends[q], reverse)
		must(b, err)
		if n == 0 {
			break
		}
		popped += n
		if tenth := popped * 10 / items; tenth > mark {
			now := cpu(b)
			if tenth == 1 || tenth == 10 {
				b.ReportMetric(float64(now-last)*10/float64(items), fmt.Sprintf("cpu-ns/item-%d/10", tenth))
			}
			mark, last = tenth, now
		}
	}
	b.ReportMetric(float64(cpu(b)-start)/float64(popped), "cpu-ns/item")
}

func BenchmarkPush(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		for _, workers := range []int{1, 16} {
			b.Run(fmt.Sprintf("nosync=%t/workers=%d", noSync, workers), func(b *testing.B) {
				db := openBench(b, noSync)
				b.ReportAllocs()
				b.ResetTimer()
				parallel(b, workers, func(worker, i int) error {
					return pushBatch(db, worker, 0, uint64(i)*benchBatch, make([]byte, 100))
				})
				b.ReportMetric(float64(b.N*benchBatch)/b.Elapsed().Seconds(), "items/s")
			})
		}
	}
}

// BenchmarkPushPop pushes and pops at once, each worker its own queue or all
// the same one.
func BenchmarkPushPop(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		for _, queues := range []int{1, 16} {
			b.Run(fmt.Sprintf("nosync=%t/queues=%d", noSync, queues), func(b *testing.B) {
				db := openBench(b, noSync)
				var popped atomic.Int64
				b.ReportAllocs()
				b.ResetTimer()
				parallel(b, 16, func(worker, i int) error {
					queue := worker % queues
					begin, end := prefixOf(queue, 0)
					if err := pushBatch(db, queue, 0, uint64(worker)<<40+uint64(i)*benchBatch, make([]byte, 100)); err != nil {
						return err
					}
					n, err := popBatch(db, queue, begin, end, false)
					popped.Add(int64(n))
					return err
				})
				b.ReportMetric(float64(popped.Load())/b.Elapsed().Seconds(), "items/s")
				m, err := db.Metrics()
				must(b, err)
				b.ReportMetric(float64(m.Conflicts)/float64(b.N), "conflicts/op")
			})
		}
	}
}

// BenchmarkSmall is the latency of a transaction that reads a row and writes
// two.
func BenchmarkSmall(b *testing.B) {
	for _, noSync := range []bool{true, false} {
		b.Run(fmt.Sprintf("nosync=%t", noSync), func(b *testing.B) {
			db := openBench(b, noSync)
			value := make([]byte, 100)
			var key []byte
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				must(b, db.Update(context.Background(), func(tx kv.Tx) error {
					if _, err := tx.Get([]byte("pq/queue/state")); err != nil {
						return err
					}
					key = itemKey(key, 0, 0, uint64(i))
					tx.Set(key, value)
					tx.Add([]byte("pq/queue/length"), 1)
					return nil
				}))
			}
		})
	}
}

// parallel runs b.N calls on a number of goroutines.
func parallel(b *testing.B, workers int, call func(worker, i int) error) {
	var wg sync.WaitGroup
	var next atomic.Int64
	errs := make([]error, workers)
	for w := range workers {
		wg.Go(func() {
			for i := 0; next.Add(1) <= int64(b.N) && errs[w] == nil; i++ {
				errs[w] = call(w, i)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		must(b, err)
	}
}

// BenchmarkSteady pushes and pops a million items in turn, so that the queue
// stays about as long as it is, and compares the first tenth with the last.
func BenchmarkSteady(b *testing.B) {
	const items = 1_000_000
	for _, priorities := range []int{1, 10, 200} {
		for _, backlog := range []int{0, 1000, 100_000} {
			for _, reverse := range []bool{false, true} {
				b.Run(fmt.Sprintf("priorities=%d/backlog=%d/max=%t", priorities, backlog, reverse), func(b *testing.B) {
					for b.Loop() {
						db := openBench(b, true)
						rng := rand.New(rand.NewPCG(1, 2))
						value := make([]byte, 100)
						var key []byte
						begin := []byte("pq/queue-000000/item/")
						end := []byte("pq/queue-000000/item0")
						start := cpu(b)
						last := start
						var slowest time.Duration
						for i, mark := 0, 0; i < items; i += benchBatch {
							before := time.Now()
							must(b, db.Update(context.Background(), func(tx kv.Tx) error {
								for j := range benchBatch {
									key = itemKey(key, 0, rng.IntN(priorities), uint64(i+j))
									tx.Set(key, value)
								}
								return nil
							}))
							if i >= backlog {
								_, err := popBatch(db, 0, begin, end, reverse)
								must(b, err)
							}
							slowest = max(slowest, time.Since(before))
							if tenth := (i + benchBatch) * 10 / items; tenth > mark {
								now := cpu(b)
								if tenth == 2 || tenth == 10 {
									b.ReportMetric(float64(now-last)*10/items, fmt.Sprintf("cpu-ns/item-%d/10", tenth))
								}
								mark, last = tenth, now
							}
						}
						b.ReportMetric(float64(cpu(b)-start)/items, "cpu-ns/item")
						b.ReportMetric(float64(slowest.Milliseconds()), "ms-slowest")
						m, err := db.Metrics()
						must(b, err)
						b.ReportMetric(float64(m.Gaps), "gaps")
					}
				})
			}
		}
	}
}

// BenchmarkLife fills a queue, opens the store again, drains it, and opens the
// store again. It reports memory, disk space, and what the first pop costs.
func BenchmarkLife(b *testing.B) {
	const items = 10_000_000
	for b.Loop() {
		dir := b.TempDir()
		open := func() *DB {
			db, err := Open(dir, Options{NoSync: true})
			must(b, err)
			return db
		}
		report := func(db *DB, when string) {
			m, err := db.Metrics()
			must(b, err)
			b.ReportMetric(float64(m.DiskBytes)/1e6, "MB-disk-"+when)
			b.ReportMetric(resident(b)/1e6, "MB-memory-"+when)
		}
		begin, end := prefixOf(0, 0)
		firstPop := func(db *DB, when string) {
			start := time.Now()
			_, err := popBatch(db, 0, begin, end, false)
			must(b, err)
			b.ReportMetric(float64(time.Since(start).Microseconds()), "us-first-pop-"+when)
		}
		db := open()
		value := make([]byte, 100)
		var word [8]byte
		start := time.Now()
		for i := uint64(0); i < items; i += benchBatch {
			for j := range value {
				if j%8 == 0 {
					binary.LittleEndian.PutUint64(word[:], rand.Uint64())
				}
				value[j] = word[j%8]
			}
			must(b, pushBatch(db, 0, 0, i, value))
		}
		b.ReportMetric(items/time.Since(start).Seconds(), "pushed/s")
		report(db, "full")
		must(b, db.Close())

		db = open()
		firstPop(db, "full")
		start = time.Now()
		for i := 0; ; i++ {
			n, err := popBatch(db, 0, begin, end, false)
			must(b, err)
			if n == 0 {
				break
			}
			if i == items/benchBatch/2 {
				report(db, "half")
				must(b, db.Close())
				db = open()
				firstPop(db, "half")
			}
		}
		b.ReportMetric(items/time.Since(start).Seconds(), "popped/s")
		report(db, "drained")
		awaitCompactions(db)
		report(db, "later")
		must(b, db.Close())

		db = open()
		firstPop(db, "drained")
		firstPop(db, "second")
		must(b, db.Close())
	}
}

// resident returns the memory of the process.
func resident(b *testing.B) float64 {
	status, err := os.ReadFile("/proc/self/statm")
	must(b, err)
	var size, pages float64
	_, err = fmt.Sscan(string(status), &size, &pages)
	must(b, err)
	return pages * float64(os.Getpagesize())
}

// awaitCompactions returns when the store has been at rest for a second.
func awaitCompactions(db *DB) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for rest := 0; rest < 10; {
		<-tick.C
		if db.store.Metrics().Compact.NumInProgress > 0 {
			rest = 0
		} else {
			rest++
		}
	}
}
