package fdbpq_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/big"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// costing pushes items with these costs, one after another. Their payloads are their numbers.
func (f *fixture) costing(queue, key string, costs ...int64) (ids []fdbpq.ID) {
	f.Helper()
	for n, cost := range costs {
		pushed := f.push(queue, fdbpq.NewItem{Payload: fmt.Append(nil, n), Key: key, Cost: cost})[0]
		if pushed.Err != nil {
			f.Fatal(pushed.Err)
		}
		ids = append(ids, pushed.ID)
	}
	return ids
}

// costs are the tokens of cost that a queue has, and one of its keys.
func (f *fixture) costs(queue, key string) (ofQueue, ofKey int64) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		i, err := f.Queue(queue).Inspect(r)
		if err == nil {
			ofQueue = i.CostTokens
		}
		return err
	})
	return ofQueue, f.key(queue, key).CostTokens
}

func (f *fixture) expectCosts(queue string, want int64) {
	f.Helper()
	if ofQueue, ofKey := f.costs(queue, "a"); ofQueue != want || ofKey != want {
		f.Errorf("%s: the queue has %d tokens of cost, the key %d: expected %d", queue, ofQueue, ofKey, want)
	}
}

// spent is a lease of which the settlement says what it has cost.
func spent(l *fdbpq.Lease, cost int64) fdbpq.Lease {
	said := *l
	said.Spent = &cost
	return said
}

func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// A token of cost suffices for an item of any cost, and the next one waits until the debt is over: in a batch, too.
func TestCostRate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for config, reason := range map[string]fdbpq.Reason{`{"cost_rate":"10/10s"}`: fdbpq.ReasonRate, `{"key_cost_rate":"10/10s"}`: fdbpq.ReasonBlocked} {
			queue := "q" + string(reason)
			f.configure(queue, config)
			ids := f.costing(queue, "a", 3, 3, 3, 3, 1000, 1, 1)
			if got := f.peek(queue, 9); len(got) != 4 {
				t.Errorf("%s: a peek shows %q, expected what a pop takes", config, got)
			}
			f.takesNow(queue, 9, "0", "1", "2", "3")
			f.limited(queue, reason, 3*time.Second) // 2 are owed
			waits := fdbpq.WaitsForRate
			if reason == fdbpq.ReasonBlocked {
				waits = fdbpq.WaitsForKeyCost
			}
			f.expectWaitsFor(queue, ids[4], waits)
			f.pass(3*time.Second - 1)
			f.limited(queue, reason, 1)
			f.pass(1)
			f.takesNow(queue, 9, "4")
			f.limited(queue, reason, 1000*time.Second) // of cost beyond the number
			f.purge(queue)
			f.costing(queue, "a", 0, 0)
			f.limited(queue, reason, 1000*time.Second)
			f.pass(1000*time.Second - 1)
			f.sweep()
			f.limited(queue, reason, 1)
			f.pass(1)
			f.takesNow(queue, 9, "0")
			f.delete(queue)
			f.configure(queue, config)
			f.costing(queue, "a", 9, 1, 1)
			f.takesNow(queue, 9, "0", "1")
			f.sound()
		}
	})
}

// A rate of deliveries and one of cost bound together: a pop waits for the later token.
func TestCostRateBesideRate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for config, reason := range map[string]fdbpq.Reason{
			`{"rate":"2/20s","cost_rate":"5/5s"}`: fdbpq.ReasonRate, `{"key_rate":"2/20s","key_cost_rate":"5/5s"}`: fdbpq.ReasonBlocked,
		} {
			queue := "q" + string(reason)
			f.configure(queue, config)
			f.costing(queue, "a", 1, 1, 1, 50, 1)
			f.takesNow(queue, 9, "0", "1")
			f.limited(queue, reason, 10*time.Second)
			f.pass(20 * time.Second)
			f.takesNow(queue, 9, "2", "3")
			f.limited(queue, reason, 47*time.Second)
			f.pass(46 * time.Second)
			f.limited(queue, reason, time.Second)
			f.pass(time.Second)
			f.takesNow(queue, 9, "4")
		}
	})
}

// A debt ends a day after the bucket is empty, at the latest, and the greatest numbers do not overflow.
func TestCostDebtIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for rate, retry := range map[string]time.Duration{
			"1/1h": 25 * time.Hour, "1/24h": 48 * time.Hour, "1000000000000/1s": 0, "1000000/24h": 86400 * time.Microsecond, "11/1s": 24*time.Hour + time.Second/11 + 1,
		} {
			queue := "q" + rate
			f.configure(queue, fmt.Sprintf(`{"cost_rate":%q,"key_cost_rate":%q}`, rate, rate))
			f.costing(queue, "a", fdbpq.MaxCost, fdbpq.MaxCost)
			f.takesNow(queue, 1, "0")
			if retry == 0 {
				f.expectCosts(queue, fdbpq.MaxCostRate-fdbpq.MaxCost)
				f.pass(time.Microsecond - 1)
				f.expectCosts(queue, fdbpq.MaxCostRate-1000)
				f.pass(1)
				f.expectCosts(queue, fdbpq.MaxCostRate)
				continue
			}
			f.limited(queue, fdbpq.ReasonRate, retry)
			f.pass(retry - 1)
			f.sweep()
			f.limited(queue, fdbpq.ReasonRate, 1)
			f.pass(1)
			f.takesNow(queue, 1, "1")
		}
	})
}

// What a settlement gives back is what its delivery has taken, to the fraction of a nanosecond.
func TestRefundIsExact(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, rate := range []string{"999999999989/24h", "7/9s", "1000000000000/1s", "50/24h", "31/10s"} {
			f.configure(rate, fmt.Sprintf(`{"cost_rate":%q,"key_cost_rate":%q}`, rate, rate))
			f.costing(rate, "a", 1, 2, 1)
			f.leaseOne(rate, time.Hour)
			f.pass(1)
			f.leaseOne(rate, time.Hour)
			read := func() (rows []byte) {
				for _, space := range []string{"qk", "kk"} {
					for _, row := range f.rows(space) {
						if bytes.Contains(row.Key, []byte(rate+"\x00")) {
							rows = append(rows, row.Value...)
						}
					}
				}
				return rows
			}
			before := read()
			if len(before) == 0 {
				t.Fatalf("%s: the buckets have no rows", rate)
			}
			taken := f.leaseOne(rate, time.Hour).Lease
			f.must(f.report13(taken))
			f.must(f.ack(spent(taken, 0)))
			if after := read(); !bytes.Equal(before, after) {
				t.Errorf("%s: the buckets were %x, and are %x after a delivery that has cost nothing", rate, before, after)
			}
		}
	})
}

// report13 raises what a delivery costs to 13.
func (f *fixture) report13(l *fdbpq.Lease) error {
	said := spent(l, 13)
	return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue(l.Queue).Report(tx, said, time.Hour, "half") })
}

// Another rate keeps whole tokens, and what is owed, in tokens. That of all keys holds from when it was set.
func TestCostRateChangesInDebt(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for name, change := range map[string]func(rate string){
			"cost_rate":     func(rate string) { f.configure("cost_rate", fmt.Sprintf(`{"cost_rate":%q}`, rate)) },
			"key_cost_rate": func(rate string) { f.configure("key_cost_rate", fmt.Sprintf(`{"key_cost_rate":%q}`, rate)) },
			"of a key":      func(rate string) { f.setKey("of a key", "a", fmt.Sprintf(`{"cost_rate":%q}`, rate)) },
		} {
			expect := func(what string, want int64) {
				t.Helper()
				ofQueue, ofKey := f.costs(name, "a") // one of them has a rate
				if got := ofQueue + ofKey; got != want {
					t.Errorf("%s, %s: %d tokens, expected %d", name, what, got, want)
				}
			}
			change("10/10s")
			f.costing(name, "a", 15, 1, 1)
			f.takesNow(name, 9, "0")
			change("10/1000s")
			expect("in debt", -5)
			f.pass(250 * time.Second)
			expect("slower", -3) // -5 + 2.5
			f.delete(name)
			change("10/1000s")
			f.costing(name, "a", 13, 1, 1)
			f.takesNow(name, 9, "0")
			f.pass(150 * time.Second) // half a token goes on as none
			change("20/20s")
			f.pass(3*time.Second - 1)
			expect("faster", 0)
			f.pass(1)
			expect("faster", 1)
			f.pass(time.Minute)
			expect("full", 20)
			f.takesNow(name, 1, "1")
			change("3/3s")
			expect("less room", 3)
			if change("50/50s"); name != "key_cost_rate" { // whose bucket was not written in between
				expect("more room", 3)
			}
			f.pass(time.Minute)
			f.sweep()
			expect("full again", 50)
		}
		f.sound()
	})
}

// Two items of one Work are corrected together.
func TestCorrectionsOfABundle(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"cost_rate":"100/24h","key_cost_rate":"100/24h"}`)
		f.costing("q", "a", 10, 20, 30)
		batch := f.lease("q", fdbpq.Min, 3, time.Hour).Items
		f.expectCosts("q", 40)
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			_, one := w.Queue("q").Ack(tx, spent(batch[0].Lease, 5))
			_, two := w.Queue("q").Nack(tx, spent(batch[1].Lease, 26), fdbpq.Nack{})
			_, three := w.Queue("q").GiveBack(tx, *batch[2].Lease, "")
			return errors.Join(one, two, three)
		})
		f.expectCosts("q", 69)
		f.sound()
	})
}

// An item keeps its cost wherever it goes, and a replacement brings its own.
func TestCostGoesWithTheItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.push("q", fdbpq.NewItem{Cost: 7, Unique: "u"})[0].ID
		f.push("q", fdbpq.NewItem{Cost: 8, Unique: "u", OnConflict: fdbpq.ConflictReplace})
		if got := f.get("q", id).Cost; got != 8 {
			t.Errorf("after a replacement the item costs %d, expected 8", got)
		}
		f.must(f.terminate(*f.leaseOne("q", time.Hour).Lease))
		letter := f.peekOne("q-dead")
		back := f.requeue("q-dead", letter.ID, "q")
		again := f.get("q", back.ID)
		if letter.Cost != 8 || again.Cost != 8 {
			t.Errorf("the dead letter costs %d, requeued %d: expected 8", letter.Cost, again.Cost)
		}
		f.imports("there", fdbpq.Import{ID: again.ID, Cost: again.Cost, Payload: again.Payload})
		if got := f.get("there", again.ID).Cost; got != 8 {
			t.Errorf("imported it costs %d, expected 8", got)
		}
		f.configure("there", `{"cost_rate":"5/5s"}`)
		if got := f.leaseOne("there", time.Hour).Cost; got != 8 {
			t.Errorf("leased it costs %d, expected 8", got)
		}
		f.limited("there", fdbpq.ReasonLeased, 0)
		for _, wrong := range []int64{-1, fdbpq.MaxCost + 1} {
			if p := f.push("q", fdbpq.NewItem{Cost: wrong})[0]; !errors.Is(p.Err, fdbpq.ErrCost) {
				t.Errorf("a push of cost %d: %v", wrong, p.Err)
			}
		}
	})
}

func (f *fixture) peekOne(queue string) (item fdbpq.Item) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		popped, err := f.Queue(queue).Peek(r, fdbpq.Selection{Limit: 1})
		if err == nil {
			item = popped.Items[0]
		}
		return err
	})
	return item
}

// Where no cost has a rate, rows are as they were: of items of cost 1, and whatever settlements say.
func TestNoCostNoRows(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		values := func(space string, from int) []byte {
			rows := f.rows(space)
			if len(rows) <= from {
				t.Fatalf("%d rows %q", len(rows), space)
			}
			return rows[from].Value
		}
		f.push("q", fdbpq.NewItem{Payload: []byte("x")}, fdbpq.NewItem{Payload: []byte("x"), Cost: 1})
		if plain, one := values("i", 0), values("i", 1); !bytes.Equal(plain, one) {
			t.Errorf("an item of cost 1 has the row %q, one without a cost %q", one, plain)
		}
		leased := f.lease("q", fdbpq.Min, 2, time.Hour).Items
		if plain, one := values("l", 0), values("l", 1); !bytes.Equal(plain, one) {
			t.Errorf("leased they are %q and %q", plain, one)
		}
		for _, settle := range []func(tx kv.Tx, l fdbpq.Lease) (fdbpq.Settled, error){
			func(tx kv.Tx, l fdbpq.Lease) (fdbpq.Settled, error) { return f.Queue("q").Extend(tx, l, 2*time.Hour) },
			func(tx kv.Tx, l fdbpq.Lease) (fdbpq.Settled, error) { return f.Queue("q").Nack(tx, l, fdbpq.Nack{}) },
		} {
			f.must(f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return settle(tx, *leased[0].Lease) }))
			f.must(f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return settle(tx, spent(leased[1].Lease, 5)) }))
			space := "l"
			if len(f.rows("l")) == 0 {
				space = "i"
			}
			if plain, said := values(space, 0), values(space, 1); !bytes.Equal(plain, said) {
				t.Errorf("after a settlement with a cost the row is %q, without %q", said, plain)
			}
		}
		if len(f.rows("qk")) > 0 || len(f.rows("kk")) > 0 {
			t.Error("there are buckets")
		}
	})
}

// At random items of random costs go, and settlements correct them. In any time that begins and ends with a delivery no more is
// reserved than the rate's number, what comes in the time, and what came back in it, before the last item: exactly.
func TestCostInAnyTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		f := openFixture(t, open)
		const number, period = 7, 9 * time.Second
		for _, config := range []string{`{"cost_rate":"7/9s"}`, `{"key_cost_rate":"7/9s"}`} {
			type entry struct {
				at    int64
				cost  int64 // negative: it came back
				lease bool
			}
			var all []entry
			queue, now, tight := config[2:6], int64(0), 0
			f.configure(queue, config)
			var held []fdbpq.Item
			pass := func(d time.Duration) {
				f.pass(d)
				now += int64(d)
			}
			for range 120 {
				f.costing(queue, "a", 1+rng.Int64N(5), 1+rng.Int64N(20))
				pass(time.Duration(rng.Int64N(int64(3 * time.Second))))
				found := f.lease(queue, fdbpq.Min, 1+rng.IntN(3), time.Hour)
				if len(found.Items) == 0 && rng.IntN(2) == 0 {
					pass(found.Retry - 1)
					if early := f.lease(queue, fdbpq.Min, 1, time.Hour); len(early.Items) > 0 {
						t.Fatalf("%s: a pop finds an item a nanosecond before %s", config, found.Retry)
					}
					pass(1)
					for range 9 { // a key may still have been told an early time, before a cost was raised
						if found = f.lease(queue, fdbpq.Min, 1, time.Hour); len(found.Items) > 0 {
							break
						}
						pass(found.Retry)
					}
					if len(found.Items) == 0 {
						t.Fatalf("%s: pops find nothing, however long they wait", config)
					}
				}
				for _, item := range found.Items {
					all, held = append(all, entry{now, max(1, item.Cost), true}), append(held, item)
				}
				for len(held) > 0 && rng.IntN(2) == 0 {
					item, said := held[0], rng.Int64N(30)
					held = held[1:]
					f.must(f.ack(spent(item.Lease, said)))
					all = append(all, entry{now, said - max(1, item.Cost), false})
				}
			}
			for last, end := range all {
				reserved := int64(1) // one token suffices for the last
				for first := last - 1; first >= 0 && end.lease; first-- {
					reserved += all[first].cost
					came := big.NewRat(number, int64(period))
					came.Mul(came, big.NewRat(end.at-all[first].at, 1))
					left := came.Add(came, big.NewRat(number-reserved, 1))
					if all[first].lease && left.Sign() < 0 {
						t.Fatalf("%s: %d are reserved within %d ns", config, reserved, end.at-all[first].at)
					}
					if all[first].lease && left.Cmp(big.NewRat(1, 1e9)) < 0 {
						tight++
					}
				}
			}
			t.Logf("%s: %d times the bound was reached", config, tight)
		}
		f.sound()
	})
}
