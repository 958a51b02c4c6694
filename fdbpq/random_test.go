package fdbpq_test

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

var (
	flagSeed  = flag.Uint64("pq.seed", 0, "seed of random tests; 0: a new one")
	flagOps   = flag.Int("pq.ops", 0, "operations of a campaign; 0: none")
	flagBatch = flag.Int("pq.batch", 10_000, "operations in each store of a campaign")
)

// randomSeed is printed, so that a failure can be repeated.
func randomSeed(t testing.TB) uint64 {
	seed := *flagSeed
	if seed == 0 {
		seed = rand.Uint64()
	}
	t.Logf("repeat with -run '^%s$' -pq.seed=%d", t.Name(), seed)
	return seed
}

// usualFaults are the chances of each fault.
var usualFaults = fault.Chances{
	fault.Conflict: 0.05, fault.Unavailable: 0.01, fault.UnknownNever: 0.02, fault.UnknownDone: 0.02, fault.UnknownLate: 0.02,
}

// A store answers and contains what the model says, whatever several processes do one
// after the other, whatever faults their commits have, and whatever their clocks show.
func TestRandom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := randomSeed(t)
		if err := runWorld(t.Context(), open, seed, fewer(t, 1500), make(harm)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestCampaign is TestRandom and TestOverlap for as long as -pq.ops says. One
// operation in ten is one that overlaps another. The run is one of many stores,
// each with a seed of its own, so a failure is repeated from its store's start.
func TestCampaign(t *testing.T) {
	t.Parallel()
	if *flagOps == 0 {
		t.Skip("no -pq.ops")
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := randomSeed(t)
		suffered := make(harm)
		for done := 0; done < *flagOps; {
			part := min(*flagBatch, *flagOps-done)
			if err := runWorld(t.Context(), open, seed+uint64(done), part-part/10, suffered); err != nil {
				t.Fatal(err)
			}
			empty(t, open)
			overlapWorld(t, open, seed+uint64(done), part/10, suffered)
			empty(t, open)
			done += part
			t.Logf("%d of %d operations: the store is what the model says; the next seed is %d", done, *flagOps, seed+uint64(done))
		}
		suffered.overlapped(t, *flagOps/10)
		t.Logf("on the way: %v", suffered)
	})
}

// harm counts what processes suffered, by kind.
type harm map[string]int

func (h harm) of(p *process) {
	for kind, n := range p.db.Stats().Injected {
		h[kind.String()] += n
	}
}

// empty clears a store's rows.
func empty(t *testing.T, open func() kv.DB) {
	db := open()
	err := db.Update(t.Context(), func(tx kv.Tx) error {
		tx.ClearRange([]byte{}, []byte{0xff})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func runWorld(ctx context.Context, open func() kv.DB, seed uint64, steps int, suffered harm) error {
	processes := 3
	if seed%3 == 0 {
		processes = 1 // which has the store for itself
	}
	w, err := newWorld(ctx, open, seed, processes, usualFaults)
	if err != nil {
		return err
	}
	w.suffered = suffered
	defer w.close()
	for n := range uint64(steps) {
		if err := w.step(n); err != nil {
			return fmt.Errorf("seed %d, step %d: %w\nbefore:\n%s", seed, n, err, strings.Join(w.trace, "\n"))
		}
	}
	if err := w.end(); err != nil {
		return fmt.Errorf("seed %d, end: %w\nbefore:\n%s", seed, err, strings.Join(w.trace, "\n"))
	}
	return nil
}

// end compares everything, then empties all queues and looks whether anything
// is left behind.
func (w *world) end() error {
	p := w.processes[0]
	if err := w.same(p); err != nil {
		return err
	}
	for _, p := range w.processes {
		w.suffered.of(p)
		p.chances = nil
		p.db.SetChances(nil)
		p.db.Release()
	}
	for name, q := range w.model.queues {
		if err := w.do(p, purgeOf(name, false)); err != nil {
			return err
		}
		if q.exists && q.config.ExpireEmpty > 0 { // its timer goes on for as long as it is in use
			never := func(c *fdbpq.Config) { c.ExpireEmpty = 0 }
			if err := w.do(p, configureOf(name, map[string]any{"expire_empty": "0s"}, never, true)); err != nil {
				return err
			}
		}
		for link := range q.links {
			if err := w.do(p, deleteLinkOf(name, link, false)); err != nil {
				return err
			}
		}
		if q.taker != nil {
			if err := w.do(p, deleteTakerOf(name)); err != nil {
				return err
			}
		}
		for schedule := range q.schedules {
			if err := w.do(p, deleteScheduleOf(name, schedule)); err != nil {
				return err
			}
		}
	}
	w.elapsed += max(fdbpq.MaxDedupWindow, 2*fdbpq.MaxResultTTL) + time.Hour
	for range 2 {
		w.elapsed += time.Minute // longer than another process has due work to itself, or a wrong clock keeps it from firing
		w.move(p)
		if err := p.heartbeat.Beat(w.ctx); err != nil {
			return err
		}
		for _, o := range []operation{sweepOf(), collectOf(), fireOf()} {
			if err := w.do(p, o); err != nil {
				return err
			}
		}
	}
	if err := w.check(p); err != nil {
		return err
	}
	return w.leftovers()
}

// leftovers are rows that an empty store has no use for.
func (w *world) leftovers() error {
	// Of the store, and of queues that exist. A queue has few counts of answers, and its next long answer clears old ones.
	lasting := []string{"v", "k", "t", "w", "s", "n", "q", "h", "a", "ra", "b", "ks", "qt", "qk", "pk", "zr", "zc", "zt"}
	return w.db.View(w.ctx, func(r kv.Reader) error {
		begin := []byte{0}
		for {
			pairs, err := r.Range(begin, []byte{0xff}, kv.RangeOptions{Limit: 1000})
			if err != nil || len(pairs) == 0 {
				return err
			}
			for _, pair := range pairs {
				space, _, err := tuple.ConsumeString(pair.Key)
				if err != nil {
					return err
				}
				counter := (space == "c" || space == "co") && kv.DecodeInteger(pair.Value) == 0
				if !counter && !slices.Contains(lasting, space) {
					return fmt.Errorf("all queues are empty, yet there is a row %q = %q", pair.Key, pair.Value)
				}
			}
			begin = append(pairs[len(pairs)-1].Key, 0)
		}
	})
}
