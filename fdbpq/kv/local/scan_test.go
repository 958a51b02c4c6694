package local

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// steps returns how many entries of the store a scan passes, as the store
// itself counts them, and what it finds.
func steps(t *testing.T, db *DB, begin, end string, opts kv.RangeOptions) (int, []kv.Pair) {
	t.Helper()
	run := db.begin(nil)
	defer run.end()
	pairs, err := run.Range([]byte(begin), []byte(end), opts)
	if err != nil {
		t.Fatal(err)
	}
	stats := run.iter.Stats()
	return stats.ForwardStepCount[pebble.InternalIterCall] + stats.ReverseStepCount[pebble.InternalIterCall], pairs
}

// popAll takes pairs off an end of a range until none is left, and returns the
// most steps that finding a batch took.
func popAll(t *testing.T, db *DB, begin, end string, opts kv.RangeOptions) (most, popped int) {
	t.Helper()
	for {
		n, pairs := steps(t, db, begin, end, opts)
		most = max(most, n)
		popped += len(pairs)
		if len(pairs) == 0 {
			return most, popped
		}
		mustUpdate(t, db, func(tx kv.Tx) error {
			for _, p := range pairs {
				tx.Clear(p.Key)
			}
			return nil
		})
	}
}

// TestPopsStayFlat drains queues from either end, and a band from the middle.
// No pop may step over more than the remains of the one before.
func TestPopsStayFlat(t *testing.T) {
	t.Parallel()
	const rows, batch = 3000, 50
	for _, c := range []struct {
		name       string
		begin, end string
		want       int
		opts       kv.RangeOptions
	}{
		{"head", "q/", "q0", 3 * rows, kv.RangeOptions{Limit: batch}},
		{"tail", "q/", "q0", 3 * rows, kv.RangeOptions{Limit: batch, Reverse: true}},
		{"band", "q/1/", "q/10", rows, kv.RangeOptions{Limit: batch}},
		{"band, backwards", "q/1/", "q/10", rows, kv.RangeOptions{Limit: batch, Reverse: true}},
		{"one by one", "q/1/", "q/10", rows, kv.RangeOptions{Limit: 1}},
		{"one by one, backwards", "q/1/", "q/10", rows, kv.RangeOptions{Limit: 1, Reverse: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			fs := vfs.NewMem()
			db := mustOpen(t, Options{FS: fs, NoSync: true})
			for i := range rows {
				mustUpdate(t, db, func(tx kv.Tx) error {
					for band := range 3 {
						tx.Set(fmt.Appendf(nil, "q/%d/%06d", band, i), []byte("v"))
					}
					return nil
				})
			}
			most, popped := popAll(t, db, c.begin, c.end, c.opts)
			// A row that was popped is two entries, a row that is found is one or
			// two, and it takes some steps until a scan looks for gaps.
			if limit := 2*defaultGapLimits.lookAfter + 6*c.opts.Limit; most > limit || popped != c.want {
				t.Errorf("%d rows popped, %d steps at most, want %d and no more than %d", popped, most, c.want, limit)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}

			// A store that was opened again has to learn it again, once.
			db = openMem(t, Options{FS: fs, NoSync: true})
			steps(t, db, c.begin, c.end, c.opts)
			if n, _ := steps(t, db, c.begin, c.end, c.opts); n > 2*defaultGapLimits.lookAfter {
				t.Errorf("the second scan took %d steps", n)
			}
		})
	}
}

// TestBusyQueueStaysFlat pushes and pops in turn, at random priorities, so that
// rows appear and vanish everywhere among the tombstones.
func TestBusyQueueStaysFlat(t *testing.T) {
	t.Parallel()
	for _, reverse := range []bool{false, true} {
		for _, backlog := range []int{0, 500} {
			t.Run(fmt.Sprintf("reverse=%t, backlog=%d", reverse, backlog), func(t *testing.T) {
				t.Parallel()
				const batch, priorities = 20, 10
				db := openMem(t, Options{NoSync: true})
				rng := rand.New(rand.NewPCG(1, 1))
				total := 0
				for i := range 1000 {
					mustUpdate(t, db, func(tx kv.Tx) error {
						for j := range batch {
							tx.Set(fmt.Appendf(nil, "q/%d/%06d", rng.IntN(priorities), i*batch+j), []byte("v"))
						}
						return nil
					})
					if i*batch < backlog {
						continue
					}
					n, pairs := steps(t, db, "q/", "q0", kv.RangeOptions{Limit: batch, Reverse: reverse})
					mustUpdate(t, db, func(tx kv.Tx) error {
						for _, p := range pairs {
							tx.Clear(p.Key)
						}
						return nil
					})
					if len(pairs) != batch {
						t.Fatalf("round %d: %d rows", i, len(pairs))
					}
					total += n
				}
				if most := 1000 * batch * 10; total > most {
					t.Errorf("%d steps for %d rows", total, 1000*batch)
				}
			})
		}
	}
}

// TestLaggingScanStaysFlat reads a state that later pops have emptied.
func TestLaggingScanStaysFlat(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{NoSync: true})
	const rows = 3000
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range rows {
			tx.Set(fmt.Appendf(nil, "q/%06d", i), []byte("v"))
		}
		return nil
	})
	opts := kv.RangeOptions{Limit: 10}
	for popped := 0; popped < rows-100; popped += 10 {
		late := db.begin(nil)
		if err := late.open(); err != nil {
			t.Fatal(err)
		}
		_, pairs := steps(t, db, "q/", "q0", opts)
		mustUpdate(t, db, func(tx kv.Tx) error {
			for _, p := range pairs {
				tx.Clear(p.Key)
			}
			return nil
		})
		steps(t, db, "q/", "q0", opts) // leaves a gap that late must not trust
		got, err := late.Range([]byte("q/"), []byte("q0"), opts)
		if err != nil || len(got) != 10 || string(got[0].Key) != fmt.Sprintf("q/%06d", popped) {
			t.Fatalf("after %d pops a late scan found %q, %v", popped, got, err)
		}
		stats := late.iter.Stats()
		if n := stats.ForwardStepCount[pebble.InternalIterCall]; n > 100 {
			t.Fatalf("after %d pops a late scan took %d steps", popped, n)
		}
		late.end()
	}
}
