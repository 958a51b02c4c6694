package fdbpq_test

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// spender is a key whose items cost something, and what its deliveries cost in truth.
type spender struct {
	weight     int64 // 0: not set
	says, does int64
}

// spend delivers items of keys that always have some, with several in flight, and returns what each key's deliveries have cost, behind the
// first fifth, when settlements have corrected what was said before any was known.
func (f *fixture) spend(queue string, keys map[string]spender, deliveries, inFlight int) map[string]float64 {
	f.Helper()
	for key, of := range keys {
		if of.weight != 0 {
			f.setKey(queue, key, fmt.Sprintf(`{"weight":%d}`, of.weight))
		}
		f.fill(queue, deliveries, fdbpq.NewItem{Key: key, Cost: of.says})
	}
	spent, flying := make(map[string]float64), []fdbpq.Item{}
	for n := range deliveries {
		flying = append(flying, f.leaseOne(queue, time.Hour))
		if len(flying) < inFlight {
			continue
		}
		first := flying[0]
		flying = flying[1:]
		of := keys[first.Key]
		if n > deliveries/5 {
			spent[first.Key] += float64(of.does)
		}
		if of.does != of.says {
			first.Lease.Spent = &of.does
		}
		if err := f.ack(*first.Lease); err != nil {
			f.Fatal(err)
		}
	}
	return spent
}

// Keys take turns by their costs and weights, and the truth of settlements corrects what items have said. The items without a key are one
// of them.
func TestTurnsByCost(t *testing.T) {
	t.Parallel()
	for name, keys := range map[string]map[string]spender{
		"costs":                 {"big": {says: 10, does: 10}, "small": {says: 1, does: 1}},
		"costs and weights":     {"big": {says: 10, does: 10}, "small": {weight: 9, says: 1, does: 1}},
		"without a key":         {"": {says: 10, does: 10}, "small": {says: 1, does: 1}},
		"too low":               {"low": {says: 3, does: 30}, "right": {says: 5, does: 5}},
		"too high":              {"high": {says: 30, does: 3}, "right": {says: 5, does: 5}},
		"both, and weights":     {"low": {weight: 2, says: 1, does: 10}, "high": {says: 100, does: 10}},
		"without a word before": {"big": {says: 1, does: 50}, "small": {says: 1, does: 5}},
		"without a key, wrong":  {"": {says: 2, does: 20}, "high": {weight: 3, says: 20, does: 2}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"fair":"priority"}`)
				spent := f.spend("q", keys, 1500, 6)
				var all, weights float64
				for key, of := range keys {
					all, weights = all+spent[key], weights+float64(max(1, of.weight))
				}
				for key, of := range keys {
					if got, want := spent[key]/all, float64(max(1, of.weight))/weights; math.Abs(got-want) > .05*want {
						t.Errorf("the key %q had %.3f of the cost, expected %.3f", key, got, want)
					}
				}
				f.sound()
			})
		})
	}
}

// However often the place of a key is looked at anew, for an urgent item, or because the key may have more again, its turns are those that
// it has not had.
func TestTurnsByCostOfKeysThatChange(t *testing.T) {
	t.Parallel()
	for _, config := range []string{
		`{"fair":"0"}`, `{"fair":"0","key_limit":2}`, `{"fair":"0","key_limit":3,"key_cost_rate":"1000000/1s"}`, `{"fair":"0","cost_rate":"2880/1s"}`,
	} {
		t.Run(config, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				seed := rand.Uint64()
				t.Logf("seed %d", seed)
				rng := rand.New(rand.NewPCG(seed, 0))
				f := openFixture(t, open)
				f.configure("q", config)
				f.setKey("q", "gold", `{"weight":3}`)
				most, spent, all := map[string]int64{"gold": 300, "silver": 300, "bulk": 1500}, make(map[string]float64), 0.0
				push := func(key string) {
					f.push("q", fdbpq.NewItem{Key: key, Cost: most[key], Priority: min(rng.Int64N(10), 1), HasPriority: true})
				}
				for _, key := range slices.Sorted(maps.Keys(most)) {
					for range 20 {
						push(key)
					}
				}
				for flying := []fdbpq.Item{}; all < 500_000; {
					popped := f.lease("q", fdbpq.Min, 1, time.Hour)
					if flying = append(flying, popped.Items...); len(popped.Items) == 0 {
						f.clock.advance(max(popped.Retry, time.Millisecond))
					}
					if len(flying) < 2 {
						continue
					}
					item := flying[0]
					flying = flying[1:]
					item.Lease.Spent = new(1 + rng.Int64N(most[item.Key]))
					spent[item.Key] += float64(*item.Lease.Spent)
					all += float64(*item.Lease.Spent)
					if err := f.ack(*item.Lease); err != nil {
						t.Fatal(err)
					}
					push(item.Key)
				}
				for key, want := range map[string]float64{"gold": .6, "silver": .2, "bulk": .2} {
					if got := spent[key] / all; math.Abs(got-want) > .05*want {
						t.Errorf("the key %q had %.3f of the cost, expected %.3f", key, got, want)
					}
				}
				f.sound()
			})
		})
	}
}

// A key that comes stands behind the cost of its first item, so one that has one item at a time gets its share, and no more.
func TestOneItemAtATimeByCost(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		f.fill("q", 1000, fdbpq.NewItem{Key: "always", Payload: []byte("always"), Cost: 2})
		got, away := 0, true
		for range 1000 {
			if away {
				f.push("q", fdbpq.NewItem{Key: "single", Payload: []byte("single"), Cost: 20})
			}
			n := count(f.popped("q", 1), "single")
			got, away = got+n, n > 0
		}
		if got < 80 || got > 100 {
			t.Errorf("%d deliveries of cost 20 beside others of cost 2, expected one of eleven", got)
		}
	})
}

// What a key owes goes with its last ready item, however that goes, and what settlements say of a key without any is not kept.
func TestDebtGoesWithTheLastItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		settle := func(item fdbpq.Item) {
			item.Lease.Spent = new(int64(9))
			if err := f.ack(*item.Lease); err != nil {
				t.Fatal(err)
			}
		}
		owed := func(n int, when string) {
			t.Helper()
			if rows := len(f.rows("fo")); rows != n {
				t.Errorf("%d keys owe something %s, expected %d", rows, when, n)
			}
			f.sound()
		}
		last := f.keyed("q", "a", 0, 3)[2]
		settle(f.leaseOne("q", time.Hour))
		owed(1, "with ready items")
		leased := f.leaseOne("q", time.Hour)
		f.remove("q", last)
		owed(0, "behind the last one")
		settle(leased)
		owed(0, "without any")
		f.keyed("q", "a", 0, 2)
		settle(f.leaseOne("q", time.Hour))
		f.configure("q", `{"fair":""}`)
		owed(0, "where keys take no turns")
		f.configure("q", `{"fair":"priority"}`)
		f.purge("q")
		f.keyed("q", "a", 0, 2)
		settle(f.leaseOne("q", time.Hour))
		f.purge("q")
		for range 10 {
			f.sweep()
		}
		owed(0, "after a purge")
	})
}

// A key whose last items go together leaves no tag behind in any class, while others have items there.
func TestTagsGoWithTheLastItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		for _, priority := range []int64{1, 2} {
			for _, key := range []string{"goes", "stays"} {
				f.push("q", fdbpq.NewItem{Key: key, Payload: []byte(key), Cost: 3, Priority: priority, HasPriority: true})
			}
		}
		f.fill("q", 5, fdbpq.NewItem{Key: "stays", Payload: []byte("stays"), Priority: 2, HasPriority: true})
		for n := 0; n < 2; {
			n += count(payloads(f.pop("q", fdbpq.Min, 4).Items), "goes")
		}
		for _, row := range f.rows("ft") {
			if strings.Contains(string(row.Key), "goes") {
				t.Errorf("the tag %q is left", row.Key)
			}
		}
		f.sound()
	})
}

// A settlement that says what a key owes, and the pop of the key's last item, which begins and ends meanwhile, leave nothing behind.
func TestDebtBesideTheLastPop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		w := worldOf(t, open, 2)
		do := func(o operation) {
			t.Helper()
			if err := w.do(w.processes[0], o); err != nil {
				t.Fatal(err)
			}
		}
		do(configureOf("a", map[string]any{"fair": "priority"}, func(c *fdbpq.Config) { c.Fair = fdbpq.FairPriority }, true))
		do(pushOf("a", []pushItem{{payload: "first", key: "k", cost: 2}, {payload: "last", key: "k"}}))
		do(leaseIt(w))
		lease := w.lease0()
		lease.spent = spending{said: true, cost: 9}
		settle, pop := settleOf(lease, settleAck, 0, ""), popOf("a", justOne(fdbpq.Min, ""), time.Minute)
		reran, err := w.overlap(meeting{p: w.processes[0], o: settle}, meeting{p: w.processes[1], o: pop}, atOnce)
		if err != nil || !reran {
			t.Errorf("ran again: %v, %v, expected that it does", reran, err)
		}
		if err := w.check(w.processes[0]); err != nil {
			t.Error(err)
		}
	})
}

// Behind tags that are high, the queue begins its next order by itself, and keys keep their weights.
func TestNextOrderBehindHighTags(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"fair":"priority"}`)
		virtual := func() kv.Pair {
			rows := f.rows("fc")
			if len(rows) != 1 {
				t.Fatalf("%d classes have a virtual time, expected one", len(rows))
			}
			return rows[0]
		}
		f.keyed("q", "first", 0, 2)
		f.popped("q", 1)
		f.update(func(tx kv.Tx) error {
			tx.Set(virtual().Key, kv.EncodeInteger(1<<61-8<<40))
			return nil
		})
		f.push("q", fdbpq.NewItem{Key: "heavy", Weight: 3, Payload: []byte("heavy")})
		for _, key := range []string{"heavy", "light"} {
			f.fill("q", 100, fdbpq.NewItem{Key: key, Payload: []byte(key), Cost: fdbpq.MaxCost})
		}
		for high, n := true, 0; high; n++ {
			if n > 100 {
				t.Fatal("the order goes on behind high tags")
			}
			f.popped("q", 1)
			high = len(f.rows("fc")) > 0
		}
		f.sweep()
		f.sound()
		f.expectShares(t, 80, map[string]float64{"heavy": .75, "light": .25})
		if tag := kv.DecodeInteger(virtual().Value); tag > 1<<50 {
			t.Errorf("the next order begins with tags such as %d", tag)
		}
	})
}
