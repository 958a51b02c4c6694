package fdbpq_test

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// givingBack are the ways in which a lease ends and its token comes back.
var givingBack = map[string]func(f *fixture, l fdbpq.Lease) error{
	"given back": (*fixture).unused,
	"unreceived": func(f *fixture, l fdbpq.Lease) error {
		_, err := f.returned(l)
		return err
	},
}

// settlingLate are the ways in which a lease that is over settles its item.
var settlingLate = map[string]func(f *fixture, l fdbpq.Lease) error{
	"acknowledged": (*fixture).ack,
	"given up":     (*fixture).terminate,
	"handed over": func(f *fixture, l fdbpq.Lease) error {
		return f.handOver("next", l, fdbpq.NewItem{}).Err
	},
}

// A token that came back is taken again when the item is settled after all: by the queue's rate
// and by that of its key. What the bucket owes has to come before the next delivery.
func TestLateSettlementTakesTheTokenAgain(t *testing.T) {
	t.Parallel()
	rates := map[string]fdbpq.Reason{`{"rate":"2/20s","hand_over":"*"}`: fdbpq.ReasonRate, `{"key_rate":"2/20s","hand_over":"*"}`: fdbpq.ReasonBlocked}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		n := 0
		for config, reason := range rates {
			for returned, giveBack := range givingBack {
				for settled, settle := range settlingLate {
					n++
					queue := fmt.Sprint("q", n)
					f.configure(queue, config)
					f.owe(queue, 4, func(l fdbpq.Lease) error { return giveBack(f, l) }, func(l fdbpq.Lease) error { return settle(f, l) })
					if taken := f.pop(queue, fdbpq.Min, 5); len(taken.Items) > 0 || taken.Reason != reason || taken.Retry != 30*time.Second {
						t.Errorf("%s: of four items that were %s and %s a pop takes %d more, reason %q, retry after %s: two tokens are owed", config, returned, settled, len(taken.Items), taken.Reason, taken.Retry)
					}
					f.sound()
				}
			}
		}
		f.pass(29 * time.Second)
		f.sweep()
		for i := range n {
			f.expectTaken(fmt.Sprint("q", i+1), 5, 0)
		}
		f.pass(time.Second)
		for i := range n {
			f.expectTaken(fmt.Sprint("q", i+1), 5, 1)
		}
	})
}

// owe leases the items of a queue and gives them back, one after the other, and then settles all.
func (f *fixture) owe(queue string, items int, giveBack, settle func(fdbpq.Lease) error) {
	f.Helper()
	f.keyed(queue, "a", 0, items+3)
	var leases []fdbpq.Lease
	for range items {
		item := f.leaseOne(queue, time.Hour)
		leases = append(leases, *item.Lease)
		if err := giveBack(*item.Lease); err != nil {
			f.Fatal(err)
		}
		f.update(func(tx kv.Tx) error { // so that another item comes next
			_, err := f.Queue(queue).Move(tx, item.ID, 9)
			return err
		})
	}
	for _, l := range leases {
		if err := settle(l); err != nil {
			f.Fatal(err)
		}
	}
}

// unused gives an item back with which nobody has begun.
func (f *fixture) unused(l fdbpq.Lease) error { return f.giveBack(l, "") }

func (f *fixture) expectTaken(queue string, asked, want int) {
	f.Helper()
	if taken := f.pop(queue, fdbpq.Min, asked); len(taken.Items) != want {
		f.Errorf("%s: a pop took %d items (%s), expected %d", queue, len(taken.Items), taken.Reason, want)
	}
}

// One transaction may have many late settlements: each takes its token.
func TestLateSettlementsOfABundle(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"rate":"5/50s","key_rate":"5/50s"}`)
		f.keyed("q", "a", 0, 9)
		batch := f.lease("q", fdbpq.Min, 3, time.Hour).Items
		f.together(func(tx kv.Tx, work *fdbpq.Work) error {
			for _, item := range batch {
				if _, err := work.Queue("q").GiveBack(tx, *item.Lease, ""); err != nil {
					return err
				}
			}
			return nil
		})
		f.pass(time.Hour)
		f.together(func(tx kv.Tx, work *fdbpq.Work) error {
			for n, item := range batch {
				settle := work.Queue("q").Ack
				if n == 1 {
					settle = func(tx kv.Tx, l fdbpq.Lease) (fdbpq.Settled, error) { return work.Queue("q").Terminate(tx, l, "") }
				}
				if _, err := settle(tx, *item.Lease); err != nil {
					return err
				}
			}
			return nil
		})
		f.expectTaken("q", 9, 2)
		f.sound()
	})
}

// A late settlement takes no token of a delivery whose token did not come back, and none where
// the rate is no more. One without effect takes none either.
func TestLateSettlementTakesNoOtherToken(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for name, end := range map[string]func(l fdbpq.Lease) error{
			"failed":                  func(l fdbpq.Lease) error { return f.nack(l, 0) },
			"came back with a reason": func(l fdbpq.Lease) error { return f.giveBack(l, "stopped") },
			"came back too late": func(l fdbpq.Lease) error {
				f.pass(time.Second)
				f.leaseOne(l.Queue, time.Hour)
				return f.giveBack(l, "")
			},
		} {
			queue := "of an item that " + name
			f.configure(queue, `{"rate":"4/24h","key_rate":"4/24h"}`)
			f.keyed(queue, "a", 0, 9)
			first := f.leaseOne(queue, time.Hour)
			if err := end(*first.Lease); err != nil {
				t.Fatal(err)
			}
			before := f.key(queue, "a").Tokens
			if err := f.ack(*first.Lease); err != nil {
				t.Fatal(err)
			}
			if after := f.key(queue, "a").Tokens; after != before {
				t.Errorf("%s: there are %d tokens after a late acknowledgement, there were %d", queue, after, before)
			}
			f.expectTaken(queue, 9, int(before))
		}

		graveless := strings.Repeat("q", fdbpq.MaxDeadLetterName+1)
		f.configure(graveless, `{"rate":"2/24h"}`)
		f.pushed(graveless, 0, "one", "two")
		first := f.leaseOne(graveless, time.Hour)
		if err := f.unused(*first.Lease); err != nil {
			t.Fatal(err)
		}
		f.together(func(tx kv.Tx, work *fdbpq.Work) error { // and it commits
			if _, err := work.Queue(graveless).Terminate(tx, *first.Lease, ""); !errors.Is(err, fdbpq.ErrNoDeadLetterQueue) {
				t.Errorf("giving up without a dead-letter queue: %v", err)
			}
			return nil
		})
		f.expectTaken(graveless, 9, 2)

		f.configure("twice", `{"rate":"3/24h","key_rate":"3/24h"}`)
		f.keyed("twice", "a", 0, 9)
		if err := f.unused(*f.leaseOne("twice", time.Hour).Lease); err != nil {
			t.Fatal(err)
		}
		second := f.leaseOne("twice", time.Hour)
		if err := cmp.Or(f.nack(*second.Lease, 0), f.ack(*second.Lease)); err != nil {
			t.Fatal(err)
		}
		f.expectTaken("twice", 9, 2)

		f.configure("q", `{"rate":"1/24h"}`)
		f.pushed("q", 0, "one", "two")
		first = f.leaseOne("q", time.Hour)
		if err := f.unused(*first.Lease); err != nil {
			t.Fatal(err)
		}
		again := f.leaseOne("q", time.Hour)
		if err := f.ack(*first.Lease); lost(err) != fdbpq.LostTaken {
			t.Errorf("a late acknowledgement of an item that another one has: %v", err)
		}
		f.configure("q", `{"rate":""}`)
		if err := f.unused(*again.Lease); err != nil {
			t.Fatal(err)
		}
		if err := f.ack(*again.Lease); err != nil {
			t.Fatal(err)
		}
		f.configure("q", `{"rate":"1/24h"}`)
		f.expectTaken("q", 9, 1)
	})
}

// Another rate takes over what the bucket owes, in tokens.
func TestDebtOutlivesTheRate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for config, change := range map[string]func(queue string){
			`{"rate":"1/24h"}`:     func(queue string) { f.configure(queue, `{"rate":"2/2s"}`) },
			`{"key_rate":"1/24h"}`: func(queue string) { f.setKey(queue, "a", `{"rate":"2/2s"}`) },
		} {
			f.configure(config[2:6], config)
			f.owe(config[2:6], 3, f.unused, f.ack)
			change(config[2:6])
			f.pass(3*time.Second - 1)
			f.expectTaken(config[2:6], 9, 0)
			f.pass(1)
			f.expectTaken(config[2:6], 9, 1)
		}
	})
}

// What a bucket owes keeps its row, and is bounded, far from overflow.
func TestDebtsAreBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_rate":"1/24h"}`)
		f.owe("q", 3, f.unused, f.ack)
		f.pass(3*24*time.Hour - time.Second)
		f.sweep()
		f.expectTaken("q", 9, 0)
		f.pass(time.Second)
		f.sweep()
		f.expectTaken("q", 9, 1)
	})
	const most = fdbpq.MaxDelay
	daily, fast := fdbpq.Rate{N: 1, Period: fdbpq.Duration(fdbpq.MaxRatePeriod)}, fdbpq.Rate{N: fdbpq.MaxRate, Period: fdbpq.Duration(time.Second)}
	for _, c := range []struct {
		rate, next fdbpq.Rate
		late       int
	}{{daily, daily, 1_000_000}, {fast, daily, 10_000_000}, {daily, fast, 1_000_000}} {
		under, after := fdbpq.Debt(c.rate, c.next, c.late)
		if under <= 0 || under > most || after <= 0 || after > most {
			t.Errorf("after %d late settlements a rate of %s allows nothing for %s, and then one of %s for %s: expected up to %s", c.late, c.rate, under, c.next, after, most)
		}
	}
}

// At random deliveries are given back, and settled late. Within any time that ends with a delivery
// there are no more deliveries than the rate allows, if one that was given back counts when it is
// settled late, and otherwise not. Its token does not come back after another delivery.
func TestRateInAnyTimeWithDebts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		rng := rand.New(rand.NewPCG(seed, 0))
		f := openFixture(t, open)
		for _, config := range []string{`{"rate":"3/3s"}`, `{"key_rate":"3/3s"}`} {
			type delivery struct {
				lease fdbpq.Lease
				at    time.Duration // when it counts
				back  bool          // it was given back
				free  bool          // its token came back
				done  bool
				late  bool // it took its token again
			}
			var all []*delivery
			queue, now, taken := config[2:6], time.Duration(0), time.Duration(0)
			f.configure(queue, config)
			debts := 0
			for step := range 150 {
				f.push(queue, fdbpq.NewItem{Key: "a", Priority: int64(-step), HasPriority: true}, fdbpq.NewItem{Key: "a", Priority: int64(-step), HasPriority: true})
				passes := time.Duration(rng.Int64N(int64(2 * time.Second)))
				f.pass(passes)
				now += passes
				for _, item := range f.lease(queue, fdbpq.Min, 1+rng.IntN(3), time.Hour).Items {
					all = append(all, &delivery{lease: *item.Lease, at: now})
					taken = now
				}
				for _, d := range all {
					switch {
					case d.done || rng.IntN(3) > 0:
					case d.back:
						d.done = true
						switch err := f.ack(d.lease); {
						case err == nil && d.free:
							d.at, d.late, taken = now, true, now
						case err != nil && lost(err) == "":
							t.Fatal(err)
						}
					case rng.IntN(3) == 0:
						d.done = true
						if err := f.ack(d.lease); err != nil {
							t.Fatal(err)
						}
					default:
						d.back, d.free = true, d.at == taken
						if err := f.giveBack(d.lease, ""); err != nil {
							t.Fatal(err)
						}
					}
				}
			}
			counts := slices.DeleteFunc(slices.Clone(all), func(d *delivery) bool { return d.free && !d.late })
			slices.SortStableFunc(counts, func(a, b *delivery) int { // at one time the late ones came last
				if a.at == b.at && a.late != b.late {
					return map[bool]int{false: -1, true: 1}[a.late]
				}
				return cmp.Compare(a.at, b.at)
			})
			for last, d := range counts {
				if d.late {
					debts++
					continue
				}
				for first := range last + 1 {
					within := d.at - counts[first].at
					if n := last - first + 1; float64(n) > 3+within.Seconds()+1e-6 {
						t.Fatalf("%s: %d deliveries in %s", config, n, within)
					}
				}
			}
			if debts < 20 {
				t.Errorf("%s: only %d late settlements of %d deliveries", config, debts, len(all))
			}
		}
	})
}
