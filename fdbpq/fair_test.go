package fdbpq_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// popped pops n items for good, one in each transaction.
func (f *fixture) popped(queue string, n int) []string {
	f.Helper()
	var all []string
	for range n {
		all = append(all, payloads(f.pop(queue, fdbpq.Min, 1).Items)...)
	}
	return all
}

func (f *fixture) setKey(queue, key, object string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue(queue).SetKey(tx, key, []byte(object))
		return err
	})
}

// Within a class keys take turns, whatever the order of their pushes, and the items without
// a key are one key. Classes are strict.
func TestKeysTakeTurns(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"0,100"}`)
		f.keyed("q", "a", 7, 4)
		f.pushed("q", 3, "free0", "free1")
		f.keyed("q", "b", 50, 2)
		f.keyed("q", "c", 100, 1)
		f.keyed("q", "d", -5, 1)
		if got, want := strings.Join(f.popped("q", 10), " "), "d0 free0 a0 b0 free1 a1 b1 a2 a3 c0"; got != want {
			t.Errorf("pops took %s, expected %s", got, want)
		}
		f.sound()
	})
}

// Peeks show what a pop takes, and batches take what single pops would.
func TestFairBatches(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, n := range []int{1, 2, 3, 7} {
			queue := fmt.Sprint("q", n)
			f.configure(queue, `{"fair":"priority"}`)
			for i, key := range []string{"a", "b", "c", "d"} {
				f.keyed(queue, key, 0, 4-i)
				f.keyed(queue, key, 1, 1)
			}
			var got []string
			for len(got) < 14 {
				seen := f.peek(queue, n)
				taken := payloads(f.pop(queue, fdbpq.Min, n).Items)
				if len(taken) == 0 || !slices.Equal(seen, taken) {
					t.Fatalf("a peek showed %q, the pop took %q", seen, taken)
				}
				got = append(got, taken...)
				f.sound()
			}
			if got, want := strings.Join(got, " "), "a0 b0 c0 d0 a1 b1 c1 a2 b2 a3 a0 b0 c0 d0"; got != want {
				t.Errorf("pops of %d took %s, expected %s", n, got, want)
			}
		}
	})
}

var flagHot = flag.Int("pq.hot", 600, "items of the key that has most in TestHotKey")

// A key with many items delays the others by a turn each, and when all have gone nothing
// of them is left.
func TestHotKey(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		small, each := 39, 5
		if *flagHot > 10_000 {
			small, each = 999, 10
		}
		f.fill("q", *flagHot, fdbpq.NewItem{Key: "hot", Payload: []byte("hot"), Cost: 2})
		for i := range small {
			f.fill("q", each, fdbpq.NewItem{Key: fmt.Sprint("small", i), Payload: []byte("small"), Weight: 1, Cost: 2})
		}
		taken := f.popped("q", each*(small+1))
		if n := count(taken, "small"); n != small*each {
			t.Errorf("%d of %d items of small keys are out after %d pops", n, small*each, len(taken))
		}
		for more := true; more; {
			popped := f.pop("q", fdbpq.Min, fdbpq.MaxBatch)
			more = len(popped.Items) > 0 || popped.More
		}
		for _, space := range []string{"fk", "fu", "fc", "fw", "fo", "ft", "kh"} {
			if n := len(f.rows(space)); n > 0 {
				t.Errorf("%d rows are left in %q", n, space)
			}
		}
	})
}

func count(in []string, what string) (n int) {
	for _, s := range in {
		if s == what {
			n++
		}
	}
	return n
}

// For any two keys that may be handed out throughout a time, what each got by its weight
// differs by no more than two items of each. Keys come, go, wait for leases, and are
// paused meanwhile, several processes pop, and the order of commits counts.
func TestFairShares(t *testing.T) {
	t.Parallel()
	t.Run("items of one cost", func(t *testing.T) { fairShares(t, 1) })
	t.Run("costs", func(t *testing.T) { fairShares(t, 20) })
}

// fairShares is TestFairShares with items that cost up to so much.
func fairShares(t *testing.T, most int64) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		f := openFixture(t, open)
		processes := []*fixture{f, f.another(time.Minute)}
		f.configure("q", `{"fair":"priority","key_limit":2}`)
		weights := map[string]float64{"": 1, "one": 1, "two": 2, "five": 5, "thousand": 1000}
		names := []string{"", "one", "two", "five", "thousand"}
		for name, weight := range weights {
			if name != "" {
				f.setKey("q", name, fmt.Sprintf(`{"weight":%g}`, weight))
			}
		}
		book := newShares(t, weights, float64(most))
		leases := make(map[string][]fdbpq.Lease)
		ready, paused := make(map[string]int), make(map[string]bool)
		for range 600 {
			p := processes[rng.IntN(2)]
			name := pick(rng, names...)
			switch dice := rng.IntN(20); {
			case dice < 6:
				n := 1 + rng.IntN(4)
				p.fill("q", n, fdbpq.NewItem{Key: name, Payload: []byte(name), Cost: 1 + rng.Int64N(most)})
				ready[name] += n
			case dice < 14:
				taken := p.lease("q", fdbpq.Min, 1, time.Hour)
				for _, item := range taken.Items {
					leases[item.Key] = append(leases[item.Key], *item.Lease)
					ready[item.Key]--
					book.serve(item.Key, float64(max(1, item.Cost)))
				}
			case dice < 19 && len(leases[name]) > 0:
				if err := p.ack(leases[name][0]); err != nil {
					t.Fatal(err)
				}
				leases[name] = leases[name][1:]
			case name != "":
				paused[name] = !paused[name]
				p.setKey("q", name, fmt.Sprintf(`{"paused":%t}`, paused[name]))
			}
			for _, name := range names {
				book.takeable(name, ready[name] > 0 && !paused[name] && (name == "" || len(leases[name]) < 2))
			}
		}
		f.sound()
		book.judge()
	})
}

// shares is what each key got, for each two keys since both could be handed out.
type shares struct {
	testing.TB
	weights map[string]float64
	can     map[string]bool
	since   map[[2]string]*gap
	most    float64 // that an item costs
	windows int
}

// gap is the least and the greatest difference between two keys in one time.
type gap struct{ at, least, most float64 }

func newShares(t testing.TB, weights map[string]float64, most float64) *shares {
	return &shares{TB: t, weights: weights, can: make(map[string]bool), since: make(map[[2]string]*gap), most: most}
}

func (s *shares) serve(key string, cost float64) {
	s.Helper()
	if !s.can[key] {
		s.Errorf("the key %q was served, and could not be", key)
	}
	for pair, span := range s.since {
		switch key {
		case pair[0]:
			span.at += cost / s.weights[key]
		case pair[1]:
			span.at -= cost / s.weights[key]
		default:
			continue
		}
		s.windows++
		span.least, span.most = min(span.least, span.at), max(span.most, span.at)
		bound := 2 * s.most * (1/s.weights[pair[0]] + 1/s.weights[pair[1]])
		if span.most-span.least > bound+1e-9 {
			s.Errorf("of %q and %q one got %.3f more by weight, allowed are %.3f", pair[0], pair[1], span.most-span.least, bound)
			*span = *new(struct{ at, least, most float64 })
		}
	}
}

func (s *shares) takeable(key string, can bool) {
	if s.can[key] == can {
		return
	}
	s.can[key] = can
	for other := range s.weights {
		if other == key {
			continue
		}
		pair := [2]string{min(key, other), max(key, other)}
		if delete(s.since, pair); can && s.can[other] {
			s.since[pair] = &gap{}
		}
	}
}

// judge expects that the test has compared something.
func (s *shares) judge() {
	if s.windows < 50 {
		s.Errorf("only %d deliveries were compared", s.windows)
	}
}

// A key that was away gains nothing by it, and one that had more than its share before it
// went does not begin anew.
func TestAbsenceGainsNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		f.fill("q", 100, fdbpq.NewItem{Key: "a", Payload: []byte("a")})
		f.fill("q", 100, fdbpq.NewItem{Key: "b", Payload: []byte("b")})
		f.popped("q", 100)
		f.fill("q", 20, fdbpq.NewItem{Key: "late", Payload: []byte("late")})
		if n := count(f.popped("q", 30), "late"); n < 9 || n > 11 {
			t.Errorf("a key that comes late got %d of 30 items", n)
		}
		// One item a push: each time the key is away for a moment.
		got := 0
		for range 30 {
			f.push("q", fdbpq.NewItem{Key: "again", Payload: []byte("again")})
			got += count(f.popped("q", 1), "again")
		}
		if got > 9 {
			t.Errorf("a key that comes again and again got %d of 30 items", got)
		}
	})
}

// With the setting, pops keep the old order until all keys have a place in the new one.
// Without it, the order of the queue holds again at once.
func TestFairBegins(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const keys = 150
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 0, 2)
		}
		f.configure("q", `{"fair":"priority"}`)
		if got := strings.Join(f.popped("q", 2), " "); got != "key000-0 key000-1" {
			t.Errorf("before all keys had a turn, pops took %s", got)
		}
		f.keyed("q", "key999-", 0, 2)
		f.sweep()
		f.sweep()
		f.sweep()
		got := f.popped("q", keys)
		if first := slices.IndexFunc(got, func(s string) bool { return strings.HasSuffix(s, "-1") }); first >= 0 {
			t.Errorf("pop %d took the second item of a key, %s", first, got[first])
		}
		f.configure("q", `{"fair":""}`)
		if got := strings.Join(f.popped("q", 3), " "); got != "key001-1 key002-1 key003-1" {
			t.Errorf("without turns, pops took %s", got)
		}
		if n := len(f.rows("fk")) + len(f.rows("fu")) + len(f.rows("fc")); n > 0 {
			t.Errorf("%d rows of the order are left", n)
		}
		f.configure("q", `{"fair":"0"}`)
		f.configure("q", `{"fair":"5"}`) // while the one before is built
		f.sweep()
		f.sweep()
		f.sweep()
		f.sweep()
		f.popped("q", 10)
		f.sound()
	})
}

// What is left of the building of an order does not complete a later one.
func TestFairBeginsAgain(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for i := range 100 {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 0, 1)
		}
		f.configure("q", `{"fair":"priority"}`)
		if _, err := f.Sweep(t.Context()); err != nil { // it builds a part
			t.Fatal(err)
		}
		f.configure("q", `{"fair":""}`)
		f.pass(time.Millisecond)
		f.configure("q", `{"fair":"priority"}`)
		f.sweep()
		f.sound()
		if n := len(f.popped("q", 100)); n != 100 {
			t.Errorf("pops took %d of 100 items", n)
		}
	})
}

// A key in turn has one row, and classes that are empty have none.
func TestRowsOfTurns(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		a, b := f.keyed("q", "a", 0, 3), f.keyed("q", "b", 0, 3)
		f.popped("q", 4)
		if n := len(f.rows("fk")); n != 2 {
			t.Errorf("two keys have %d rows", n)
		}
		// Its next item is in another class, and nobody took the one before.
		f.keyed("q", "a", 5, 1)
		f.keyed("q", "b", 5, 1)
		for n, last := range []fdbpq.ID{a[2], b[2]} {
			f.remove("q", last)
			f.sound()
			if n == 1 {
				f.takesNow("q", 1, "a0")
			}
		}
		f.sound()
		f.takesNow("q", 2, "b0")
		f.pop("q", fdbpq.Min, 1)
		if n := len(f.rows("fk")) + len(f.rows("fu")) + len(f.rows("fc")); n > 0 {
			t.Errorf("%d rows are left", n)
		}
	})
}

// A pop looks at a bounded number of keys that have nothing for it.
func TestFairLooksAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority","key_limit":1}`)
		const keys = 300
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 0, 2)
		}
		f.lease("q", fdbpq.Min, keys, time.Hour)
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), -1, 1) // writes a row of its key
		}
		f.pushed("q", 9, "free")
		if first := f.lease("q", fdbpq.Min, 1, time.Hour); len(first.Items) > 0 || !first.More {
			t.Errorf("the first pop took %q, more %t", payloads(first.Items), first.More)
		}
		f.takes("q", 1, "free")
	})
}

// A peek gives up after a bounded number of keys that have nothing for it, until a pop has
// cleared their rows.
func TestPeekLooksAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, config := range []string{`{"key_limit":1}`, `{"key_limit":1,"fair":"priority"}`} {
			f.configure("q", config)
			f.sweep()
			const keys = 1100
			var items []fdbpq.NewItem
			for i := range keys {
				items = append(items, fdbpq.NewItem{Key: fmt.Sprint("key", i)})
			}
			for range 2 {
				f.push("q", items...)
			}
			for leased := 0; leased < keys; {
				leased += len(f.lease("q", fdbpq.Min, 500, time.Hour).Items)
			}
			for i := range items {
				items[i].Priority, items[i].HasPriority = -1, true
			}
			f.push("q", items...) // each writes a row of its key
			f.pushed("q", 9, "free")
			if seen := f.peek("q", 1); len(seen) > 0 {
				t.Errorf("%s: a peek went past %d keys to %q", config, keys, seen)
			}
			for f.lease("q", fdbpq.Min, 1, time.Hour).More {
			}
			f.purge("q")
		}
	})
}

// While a key waits for its leases, the others move on, also when they have one item at a
// time: it is not behind them when it may go on.
func TestTimeGoesOnWithoutOthers(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority","key_limit":2}`)
		f.keyed("q", "b", 0, 4)
		taken := f.takes("q", 2, "b0", "b1")
		for range 20 {
			f.keyed("q", "a", 0, 1)
			if err := f.ack(*f.takes("q", 1, "a0")[0].Lease); err != nil {
				t.Fatal(err)
			}
			f.blocked("q")
		}
		f.keyed("q", "a", 0, 2)
		if err := f.ack(*taken[0].Lease); err != nil {
			t.Fatal(err)
		}
		f.takes("q", 2, "a0", "b2")
	})
}
