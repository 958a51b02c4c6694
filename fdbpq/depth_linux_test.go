package fdbpq_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

var (
	flagDeep = flag.Int("pq.deep", 1_000_000, "items in BenchmarkDepth's deep queue")
	flagAway = flag.Int("pq.away", 100_000, "items that are leased, and as many delayed, in BenchmarkDepth")
	flagDir  = flag.String("pq.dir", "", "where BenchmarkDepth keeps its stores to use them again; empty: nowhere")
)

// shallow is the length of the queue that others are compared with.
const shallow = 10_000

// depth is a store with one queue that has some items ready, and some leased and
// as many delayed.
type depth struct {
	ready, away int
	store       *fdbpq.Store
	times       map[string][]time.Duration // of one operation, by round
	cpu         map[string]time.Duration   // of all rounds
}

// BenchmarkDepth compares what operations cost on a queue of ten thousand items with what
// they cost where there are many more, and where many more are leased and delayed. Rounds
// on the queues alternate. It reports the median of the time and the mean of the
// processor time of one operation, and in brackets the ratios to those of the first
// queue. Nothing is synced, for a sync costs the same everywhere and hides the rest;
// compactions behind the operations do not count as their processor time.
func BenchmarkDepth(b *testing.B) {
	const each = 256
	depths := []*depth{{ready: shallow}, {ready: *flagDeep}, {ready: shallow, away: *flagAway}}
	for _, d := range depths {
		d.open(b)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	operations := []struct {
		name string
		run  func(*fdbpq.Store)
	}{
		{"push", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
		{"pop.min", func(s *fdbpq.Store) { depthPop(b, s, fdbpq.Min) }},
		{"push again", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
		{"pop.max", func(s *fdbpq.Store) { depthPop(b, s, fdbpq.Max) }},
		{"lease and ack", func(s *fdbpq.Store) {
			item := depthLease(b, s, 1)[0]
			update(b, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Ack(tx, *item.Lease)
				return err
			})
		}},
		{"push once more", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for b.Loop() {
		for _, o := range operations {
			for _, d := range depths {
				start, before := time.Now(), threadTime(b)
				for range each {
					o.run(d.store)
				}
				d.times[o.name] = append(d.times[o.name], time.Since(start)/each)
				d.cpu[o.name] += (threadTime(b) - before) / each
			}
		}
	}
	for _, o := range operations {
		line := fmt.Sprintf("| %s |", o.name)
		for _, d := range depths {
			took, base := median(d.times[o.name]), median(depths[0].times[o.name])
			cpu, cpuBase := d.cpu[o.name]/time.Duration(len(d.times[o.name])), depths[0].cpu[o.name]/time.Duration(len(d.times[o.name]))
			line += fmt.Sprintf(" %.1f µs (%.2f), %.1f µs (%.2f) |",
				float64(took)/1e3, float64(took)/float64(base), float64(cpu)/1e3, float64(cpu)/float64(cpuBase))
		}
		b.Log(line)
	}
}

// threadTime is the processor time that this thread has used.
func threadTime(b *testing.B) time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_THREAD, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// open makes the store, or opens the one that an earlier run has made.
func (d *depth) open(b *testing.B) {
	dir := *flagDir
	if dir == "" {
		dir = b.TempDir()
	}
	dir = filepath.Join(dir, fmt.Sprintf("%d-%d", d.ready, d.away))
	_, err := os.Stat(dir + ".complete")
	db, openErr := local.Open(dir, local.Options{NoSync: true})
	if openErr != nil {
		b.Fatal(openErr)
	}
	b.Cleanup(func() {
		if err := db.Close(); err != nil {
			b.Error(err)
		}
	})
	if d.store, openErr = fdbpq.Open(b.Context(), db, fdbpq.Options{}); openErr != nil {
		b.Fatal(openErr)
	}
	d.times, d.cpu = make(map[string][]time.Duration), make(map[string]time.Duration)
	if err == nil {
		return
	}
	const batch = 1000
	rng := rand.New(rand.NewPCG(3, 4))
	for range d.away / batch {
		depthPush(b, d.store, rng, batch, fdbpq.NewItem{})
		depthLease(b, d.store, batch)
		depthPush(b, d.store, rng, batch, fdbpq.NewItem{Delay: 12 * time.Hour})
	}
	for range d.ready / batch {
		depthPush(b, d.store, rng, batch, fdbpq.NewItem{})
	}
	if err := os.WriteFile(dir+".complete", nil, 0o600); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkPurge purges queues like those of BenchmarkDepth. It reports the time of the
// purge and of clearing the rows behind it, under pushes and pops: the slowest of these
// operations, and the median before and meanwhile. Run it with -benchtime 1x, and without
// -pq.dir, because nothing is left to be used again.
func BenchmarkPurge(b *testing.B) {
	for _, shape := range []depth{{ready: *flagDeep}, {ready: shallow, away: *flagAway}} {
		b.Run(fmt.Sprintf("%d ready, %d leased, %[2]d delayed", shape.ready, shape.away), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				d := shape
				d.open(b)
				b.StartTimer()
				d.purge(b)
			}
		})
	}
}

func (d *depth) purge(b *testing.B) {
	rng := rand.New(rand.NewPCG(5, 6))
	// use pushes and pops until the channel is closed.
	use := func(done <-chan struct{}) (times []time.Duration) {
		for {
			select {
			case <-done:
				return times
			default:
			}
			start := time.Now()
			depthPush(b, d.store, rng, 1, fdbpq.NewItem{})
			depthPop(b, d.store, fdbpq.Min)
			times = append(times, time.Since(start))
		}
	}
	second := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(second) })
	before := use(second)

	start := time.Now()
	var purged int64
	update(b, d.store, func(tx kv.Tx) (err error) {
		purged, err = d.store.Queue("q").Purge(tx)
		return err
	})
	b.ReportMetric(float64(time.Since(start).Microseconds()), "µs/purge")
	if want := int64(d.ready + 2*d.away); purged != want {
		b.Fatalf("purged %d items, expected %d", purged, want)
	}

	start = time.Now()
	done, rounds := make(chan struct{}), 0
	go func() {
		defer close(done)
		for more := true; more; rounds++ {
			var err error
			if more, err = d.store.CollectGarbage(b.Context()); err != nil {
				b.Error(err)
				return
			}
		}
	}()
	meanwhile := use(done)
	b.ReportMetric(time.Since(start).Seconds(), "s/clearing")
	b.ReportMetric(float64(rounds), "transactions")
	after := make(chan struct{})
	time.AfterFunc(time.Second, func() { close(after) })
	meanwhile = append(meanwhile, use(after)...)
	b.ReportMetric(float64(median(before).Nanoseconds())/1e3, "µs-before")
	b.ReportMetric(float64(median(meanwhile).Nanoseconds())/1e3, "µs-meanwhile")
	b.ReportMetric(float64(slices.Max(before).Microseconds())/1e3, "slowest-ms-before")
	b.ReportMetric(float64(slices.Max(meanwhile).Microseconds())/1e3, "slowest-ms-meanwhile")
}

// depthPush pushes items of ten priorities with 100 bytes that do not compress.
func depthPush(b *testing.B, s *fdbpq.Store, rng *rand.Rand, n int, item fdbpq.NewItem) {
	items := make([]fdbpq.NewItem, n)
	payloads := make([]byte, 100*n)
	for i := range payloads {
		payloads[i] = byte(rng.Uint32())
	}
	for i := range items {
		items[i] = item
		items[i].Payload, items[i].Priority, items[i].HasPriority = payloads[100*i:100*i+100], rng.Int64N(10), true
	}
	update(b, s, func(tx kv.Tx) error {
		_, err := s.Queue("q").Push(tx, items...)
		return err
	})
}

func depthPop(b *testing.B, s *fdbpq.Store, end fdbpq.End) {
	update(b, s, func(tx kv.Tx) error {
		popped, err := s.Queue("q").Pop(tx, fdbpq.Selection{End: end, Limit: 1})
		if err == nil && len(popped.Items) != 1 {
			err = fmt.Errorf("took %d items", len(popped.Items))
		}
		return err
	})
}

func depthLease(b *testing.B, s *fdbpq.Store, n int) []fdbpq.Item {
	popped := fdbpq.Popped{More: true}
	for popped.More {
		update(b, s, func(tx kv.Tx) (err error) {
			popped, err = s.Queue("q").Lease(tx, fdbpq.Selection{Limit: n}, fdbpq.MaxLease)
			return err
		})
	}
	if len(popped.Items) != n {
		b.Fatalf("leased %d items of %d", len(popped.Items), n)
	}
	return popped.Items
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}
