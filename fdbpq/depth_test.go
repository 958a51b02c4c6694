package fdbpq_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
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

// depth is a store with one queue in a state that should cost nothing.
type depth struct {
	name        string
	ready, away int
	store       *fdbpq.Store
	times       map[string][]time.Duration // of one operation, by round
}

// BenchmarkDepth compares what operations cost on a queue of ten thousand items
// with what they cost where there are many more, and where many more are leased
// and delayed. Rounds on each queue take turns, and what is told is the median,
// and its ratio to that of the first queue. Nothing is synced, for a sync costs
// the same everywhere and hides the rest.
func BenchmarkDepth(b *testing.B) {
	const shallow, each = 10_000, 256
	depths := []*depth{
		{name: fmt.Sprint(shallow), ready: shallow},
		{name: fmt.Sprint(*flagDeep), ready: *flagDeep},
		{name: fmt.Sprintf("%d, %d leased, %[2]d delayed", shallow, *flagAway), ready: shallow, away: *flagAway},
	}
	for i, d := range depths {
		d.open(b, i)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	operations := []struct {
		name string
		run  func(*fdbpq.Store)
	}{
		{"push", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
		{"pop.min", func(s *fdbpq.Store) { depthTake(b, s, fdbpq.Min) }},
		{"push again", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
		{"pop.max", func(s *fdbpq.Store) { depthTake(b, s, fdbpq.Max) }},
		{"lease and ack", func(s *fdbpq.Store) {
			item := depthLease(b, s, 1)[0]
			update(b, s, func(tx kv.Tx) error {
				_, err := s.Queue("q").Ack(tx, *item.Lease)
				return err
			})
		}},
		{"push once more", func(s *fdbpq.Store) { depthPush(b, s, rng, 1, fdbpq.NewItem{}) }},
	}
	for b.Loop() {
		for _, o := range operations {
			for _, d := range depths {
				start := time.Now()
				for range each {
					o.run(d.store)
				}
				d.times[o.name] = append(d.times[o.name], time.Since(start)/each)
			}
		}
	}
	for _, o := range operations {
		line := fmt.Sprintf("| %s |", o.name)
		base := median(depths[0].times[o.name])
		for _, d := range depths {
			m := median(d.times[o.name])
			line += fmt.Sprintf(" %.1f µs (%.2f) |", float64(m)/1e3, float64(m)/float64(base))
		}
		b.Log(line)
	}
}

// open makes the store, or opens the one that an earlier run has made.
func (d *depth) open(b *testing.B, n int) {
	dir := *flagDir
	if dir == "" {
		dir = b.TempDir()
	}
	dir = filepath.Join(dir, fmt.Sprintf("%d-%d-%d", n, d.ready, d.away))
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
	d.times = make(map[string][]time.Duration)
	if err == nil {
		return
	}
	const batch = 1000
	rng := rand.New(rand.NewPCG(3, uint64(n)))
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

func depthTake(b *testing.B, s *fdbpq.Store, end fdbpq.End) {
	update(b, s, func(tx kv.Tx) error {
		taken, err := s.Queue("q").Take(tx, fdbpq.Selection{End: end, Limit: 1})
		if err == nil && len(taken.Items) != 1 {
			err = fmt.Errorf("took %d items", len(taken.Items))
		}
		return err
	})
}

func depthLease(b *testing.B, s *fdbpq.Store, n int) []fdbpq.Item {
	var taken fdbpq.Taken
	update(b, s, func(tx kv.Tx) (err error) {
		taken, err = s.Queue("q").Lease(tx, fdbpq.Selection{Limit: n}, fdbpq.MaxLease)
		return err
	})
	if len(taken.Items) != n {
		b.Fatalf("leased %d items of %d", len(taken.Items), n)
	}
	return taken.Items
}

func median(times []time.Duration) time.Duration {
	times = slices.Sorted(slices.Values(times))
	return times[len(times)/2]
}
