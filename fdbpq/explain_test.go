package fdbpq_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/internal/testkit/nightly"
)

// explained are the causes that rows tell.
var explained = []string{
	"flows", "empty", "paused", "rate", "leased", "held", "delayed", "full",
	"blocked by pause", "blocked by key_order", "blocked by key_limit", "blocked by key_rate",
	"item flows", "item paused", "item rate", "item leased", "item held", "item delayed",
	"item blocked by pause", "item blocked by key_order", "item blocked by key_limit", "item blocked by key_rate",
}

// Whatever state a queue is in, what it says about why nothing moves is what the model knows. Each
// cause comes many times.
func TestExplain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed, enough := randomSeed(t), fewer(t, fewer(t, 1000)) // it is the longest test of the core
		if !strings.HasSuffix(t.Name(), "/local") {
			enough = nightly.Fewer(enough)
		}
		seen := make(map[string]int)
		note := func(of string, v explainView) {
			cause := of + string(v.Cause)
			if v.WaitsFor != "" {
				cause += " by " + string(v.WaitsFor)
			}
			if seen[cause]++; v.Full {
				seen["full"]++
			}
		}
		rare := func() (cause string, n int) {
			cause, n = explained[0], seen[explained[0]]
			for _, other := range explained {
				if seen[other] < n {
					cause, n = other, seen[other]
				}
			}
			return cause, n
		}
		for world := uint64(0); ; world++ {
			if cause, n := rare(); n >= enough {
				break
			} else if world == 2000 {
				t.Fatalf("%s: %d times, expected %d", cause, n, enough)
			}
			if err := explainWorld(t, open, seed+world, 300, note); err != nil {
				t.Fatal(err)
			}
			empty(t, open)
		}
		t.Logf("%v", seen)
	})
}

// moods are what has the items of a queue wait. Random operations seldom have all that it takes.
var moods = []func(queue string) operation{
	func(queue string) operation {
		r := fdbpq.Rate{N: 1, Period: fdbpq.Duration(time.Hour)}
		return configureOf(queue, map[string]any{"rate": r}, func(c *fdbpq.Config) { c.Rate = r }, true)
	},
	func(queue string) operation {
		r := fdbpq.Rate{N: 1, Period: fdbpq.Duration(time.Hour)}
		return configureOf(queue, map[string]any{"key_rate": r, "rate": ""}, func(c *fdbpq.Config) { c.KeyRate, c.Rate = r, fdbpq.Rate{} }, true)
	},
	func(queue string) operation {
		return configureOf(queue, map[string]any{"key_order": true}, func(c *fdbpq.Config) { c.KeyOrder = true }, true)
	},
	func(queue string) operation {
		return configureOf(queue, map[string]any{"key_limit": 1, "key_order": false}, func(c *fdbpq.Config) { c.KeyLimit, c.KeyOrder = 1, false }, true)
	},
	func(queue string) operation {
		return setKeyOf(queue, "k", "paused", true, func(k *fdbpq.KeySettings) { k.Paused = given(true, false) })
	},
	func(queue string) operation { return pauseOf(queue, true) },
}

// explainWorld does something in a store, and asks after each step why nothing moves.
func explainWorld(t *testing.T, open func() kv.DB, seed uint64, steps int, note func(of string, v explainView)) error {
	w, err := newWorld(t.Context(), open, seed, 2, nil)
	if err != nil {
		return err
	}
	defer w.close()
	ask := func(of string, o operation) error {
		p := w.processes[0]
		at, err := w.moment(p)
		if err != nil {
			return err
		}
		got, err := w.attempt(p, o)
		if err != nil {
			return err
		}
		if got.OK {
			note(of, got.Explained)
		}
		return w.compare(o, at, got)
	}
	for n := range uint64(steps) {
		rng := rand.New(rand.NewPCG(seed, 1<<32+n))
		var err error
		if n%5 == 0 {
			queue := pick(rng, "a", "b")
			if err = w.do(w.processes[0], pauseOf(queue, false)); err == nil {
				err = w.do(w.processes[0], moods[seed%uint64(len(moods))](queue))
			}
		}
		if err == nil {
			err = w.step(n)
		}
		for _, queue := range []string{"a", "b"} {
			if err == nil {
				err = ask("", explainOf(queue))
			}
		}
		for range min(2, len(w.ids)) {
			if err == nil {
				err = ask("item ", explainItemOf(pick(rng, w.ids...)))
			}
		}
		if err != nil {
			return fmt.Errorf("seed %d, step %d: %w\nbefore:\n%s", seed, n, err, strings.Join(w.trace, "\n"))
		}
	}
	return nil
}

// A look at a queue asks the store for at most a fifth more when it explains what it sees, however many items there are.
func TestExplainCosts(t *testing.T) {
	t.Parallel()
	const n = 2000
	for name, tc := range map[string]struct {
		config string
		item   fdbpq.NewItem
		lease  int
	}{
		"ready":              {},
		"rate":               {config: `{"rate":"1/1h"}`, lease: 1},
		"its key":            {config: `{"key_order":true}`, item: fdbpq.NewItem{Key: "k"}, lease: 1},
		"a limit of its key": {config: `{"key_limit":8}`, item: fdbpq.NewItem{Key: "k"}, lease: 8},
		"the rate of a key":  {config: `{"key_rate":"1/1h"}`, item: fdbpq.NewItem{Key: "k"}, lease: 1},
		"leased":             {lease: n},
		"delayed":            {item: fdbpq.NewItem{Delay: time.Hour}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			base, err := placeLocal(t)()
			if err != nil {
				t.Fatal(err)
			}
			defer base.Close()
			db := &priced{DB: base}
			f := newFixture(t, db)
			if tc.config != "" {
				f.configure("q", tc.config)
			}
			for range n / 500 {
				items := make([]fdbpq.NewItem, 500)
				for i := range items {
					items[i] = tc.item
					items[i].Payload = make([]byte, 100)
				}
				f.push("q", items...)
			}
			for left := tc.lease; left > 0; left -= fdbpq.MaxBatch {
				f.lease("q", fdbpq.Min, min(left, fdbpq.MaxBatch), time.Minute)
			}
			f.pass(time.Second)
			cost := func(explains bool) int {
				f.update(func(tx kv.Tx) error {
					r, q := tx.Snapshot(), f.Queue("q")
					i, err := q.Inspect(r)
					if err != nil {
						return err
					}
					if _, err := q.OldestReady(r, 64); err != nil {
						return err
					}
					oldest, err := q.OldestLease(r, looksAtLeases)
					if err != nil {
						return err
					}
					held, err := link.New(q.Store()).Held(r, q)
					if err != nil {
						return err
					}
					if _, err := timetable(q).Summary(r, q); err != nil {
						return err
					}
					if explains {
						e, err := i.Explain(oldest, held)
						if err == nil && e.Cause != fdbpq.ReasonBlocked && e.Cause != fdbpq.ReasonRate {
							_, err = fdbpq.FailingOf(i)
						}
						return err
					}
					return err
				})
				return db.last.reads
			}
			before, after := cost(false), cost(true)
			t.Logf("%d reads, and %d with an explanation", before, after)
			if float64(after) > 1.2*float64(before) {
				t.Errorf("an explanation makes %d reads of %d", after, before)
			}
		})
	}
}

// An explanation reads few rows. Where those are of items past their TTL, it does not take the rows behind them for none.
func TestExplainBehindLargeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := newFixture(t, open())
		f.configure("q", `{"key_order":true}`)
		f.push("q", fdbpq.NewItem{Key: "k"})
		f.lease("q", fdbpq.Min, 1, time.Hour)
		for range 12 {
			f.push("q", fdbpq.NewItem{Key: "k", TTL: time.Second, Payload: make([]byte, 8<<10)})
		}
		f.push("q", fdbpq.NewItem{Key: "k"})
		f.pass(2 * time.Second)
		f.view(func(r kv.Reader) error {
			q := f.Queue("q")
			i, err := q.Inspect(r)
			if err != nil {
				return err
			}
			e, err := i.Explain(fdbpq.OldestLease{}, fdbpq.Held{})
			if err == nil && e.Cause != fdbpq.ReasonBlocked {
				f.Errorf("the cause is %s: expected %s, as an item behind those past their TTL waits for its key", e.Cause, fdbpq.ReasonBlocked)
			}
			return err
		})
	})
}

// Of the items that hold a key, explain names the one that a worker has had for longest, before one that waits between two leases.
func TestExplainNamesWhoHoldsAKeyForLongest(t *testing.T) {
	for name, c := range map[string]struct {
		first, second func(f *fixture) // take an item each
		want          string
	}{
		"a worker after a mover":  {mover, worker("late"), "late"},
		"a mover after a worker":  {worker("early"), mover, "early"},
		"a worker after a worker": {worker("early"), worker("late"), "early"},
		"a more urgent item": {worker("early"), func(f *fixture) {
			f.keyed("q", "k", 0, 1)
			worker("late")(f)
		}, "early"},
		"an item that failed in front": {failing, worker("late"), "late"},
		"an item that failed behind":   {worker("early"), failing, "early"},
		"only an item that has failed": {failing, func(*fixture) {}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			eachHold(t, func(f *fixture) {
				f.configure("q", `{"key_limit":2}`)
				last := f.keyed("q", "k", 5, 3)[2]
				c.first(f)
				f.pass(time.Second)
				c.second(f)
				f.configure("q", `{"key_order":true}`) // an item that failed keeps its key
				f.pass(time.Second)
				f.view(func(r kv.Reader) error {
					q := f.Queue("q")
					stored, err := q.Get(r, last)
					if err != nil {
						return err
					}
					e, err := q.ExplainItem(r, stored)
					if err != nil {
						return err
					}
					if e.WaitsFor != fdbpq.WaitsForKeyOrder || e.Item == nil || e.Holder != c.want {
						t.Errorf("the item waits for %q, held by %q, expected %q", e.WaitsFor, e.Holder, c.want)
					}
					return nil
				})
			})
		})
	}
}

func mover(f *fixture) { f.holds("q", "mover", 1) }

func worker(name string) func(f *fixture) {
	return func(f *fixture) { f.leaseAs("q", name, time.Hour) }
}

func failing(f *fixture) {
	item := f.leaseOne("q", time.Minute)
	f.configure("q", `{"key_order":true}`)
	if err := f.nack(*item.Lease, time.Hour); err != nil {
		f.Fatal(err)
	}
	f.configure("q", `{"key_order":false}`)
}
