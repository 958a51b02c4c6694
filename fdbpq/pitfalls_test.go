package fdbpq_test

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/fault"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// What broke other queues on FoundationDB, pinned here one by one. The tests of
// this file are named after the pitfall; what other files pin, and what cannot
// happen by construction, stands in this table.
//
//	The old layers' staging
//	  requests store no direction            TestStagedDirection
//	  membership rows leak, and swallow      there is no membership: message ids deduplicate, and Check
//	  later pushes                           accounts for every one of their rows
//	  an unknown result loses the item or    TestStagedUnknownResults
//	  leaves an orphaned request
//	  the client's death strands its item    TestPopStagedOwnerDies, TestPopStagedLeavesNothingBehind,
//	                                         TestCrowd (workers that die)
//	  all waiters fulfil the same requests   only the owner of the oldest request fulfils, unless it is silent
//	  polling                                a watch on the own request row; TestPopWaitWakes
//	  values written twice, and a            a request is answered with a lease, not a copy: TestStagedLargeItems
//	  transaction too large
//	  a pop overtakes registered requests    TestPopStagedDoesNotOvertakeRequests
//	  pop cannot be composed                 TestComposition
//	  reading the head conflicts with pushes TestPopDoesNotConflictWithPush
//	  conflicts hide in unused reads         TestOverlap: each operation against each other
//	  count parsed from the wrong element,   TestPriorities, TestTies; the random part has 64 bits
//	  20 random values
//	  concurrent pushes overwrite each other TestTiesOfConcurrentPushes
//
//	Everything else
//	  ties, and the newest one of pop.max    TestTies, TestTiesOfConcurrentPushes
//	  direction, and no priority given       TestPriorities: low is urgent, the queue has a default
//	  integers above 63 bits, floats, NaN    TestPrioritiesOfOtherPrograms
//	  counts that restart, or wrap           TestCountNeverRestarts; they have 63 bits
//	  place after a nack or an expiry        TestPlaceIsForLife
//	  count used as id                       an id holds the whole place, and ParseID takes no other spelling
//	  5 seconds a transaction                TestListEndsEarly, TestSweepIsBounded, TestPurgeIsBounded; waiting
//	                                         holds a watch and no transaction
//	  sizes                                  sizes_test.go
//	  1021                                   TestSessionResolvesUnknownResults, TestUnknownResults, TestRandom
//	  automatic_idempotency is experimental  not used: sessions find out about unknown results
//	  lost replies, retries elsewhere        TestLostReply, TestLostReplyAndLostLease, TestSameIDAtTheSameTime
//	  abandoned blocking pops                TestPopWaitGivesUp
//	  lease clocks                           TestLeaseUnderWrongClocks, TestStoreTimePassesSteadily; versions
//	                                         of the store are no clock here
//	  late acknowledgements, also after a    TestLateSettlement
//	  purge
//	  reasons of finding nothing             TestReasons
//	  leased and delayed items at the head   TestHeadIsNotSlowed, TestExpiryBehindTheHead, BenchmarkDepth
//	  deduplication after the item's end     TestDeduplicationAfterTheEnd
//	  poison                                 TestPoison
//	  queue names                            TestQueuesDoNotMix; package subjects refuses odd ones before
//	  concurrent pops                        TestCrowd, TestPopStagedServesEveryItemOnce
//	  counters that drift                    Check compares them after every test
//	  10,000 watches, and their herd         a process has one for each line that waits: TestPopWaitWakesNoHerd
//	  lost wake-ups                          TestPopWaitMissesNothing
//	  the same suite on all engines          eachEngine

func TestPriorities(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"priority":9223372036854775806}`)
		order := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, -256, -255, -1, 0, 1, 255, 256, 65536, 1<<53 + 1, math.MaxInt64}
		shuffled := slices.Clone(order)
		slices.Reverse(shuffled)
		shuffled = append(shuffled[5:], shuffled[:5]...)
		for _, priority := range shuffled {
			b.pushed("q", priority, fmt.Sprint(priority))
		}
		b.push("q", fdbpq.NewItem{Payload: []byte("9223372036854775806")}) // with the queue's default
		order = slices.Insert(order, len(order)-1, math.MaxInt64-1)
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			b.view(func(r kv.Reader) error {
				found, err := b.Queue("q").Peek(r, fdbpq.Selection{End: end, Limit: 100})
				for i, item := range found.Items {
					if item.Priority != order[i] || string(item.Payload) != fmt.Sprint(order[i]) {
						t.Errorf("end %d, item %d has priority %d and payload %s, expected %d", end, i, item.Priority, item.Payload, order[i])
					}
				}
				if len(found.Items) != len(order) {
					t.Errorf("found %d items, expected %d", len(found.Items), len(order))
				}
				return err
			})
			slices.Reverse(order)
		}
		for _, bad := range []string{"9223372036854775808", "-9223372036854775809", "1.5", "1e3", "NaN", `"5"`, "-0.0"} {
			err := b.fails(func(tx kv.Tx) error {
				_, err := b.Queue("q").Configure(tx, []byte(`{"priority":`+bad+`}`))
				return err
			})
			var config *fdbpq.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("priority %s: %v", bad, err)
			}
		}
	})
}

// Bands include both ends, at the edges of all priorities as well.
func TestBands(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		priorities := []int64{math.MinInt64, -256, -1, 0, 255, 256, math.MaxInt64}
		for _, priority := range priorities {
			b.pushed("q", priority, "")
		}
		for _, low := range priorities {
			for _, high := range priorities {
				want := 0
				for _, priority := range priorities {
					if low <= priority && priority <= high {
						want++
					}
				}
				for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
					b.view(func(r kv.Reader) error {
						found, err := b.Queue("q").Peek(r, fdbpq.Selection{End: end, Band: &fdbpq.Band{Low: low, High: high}, Limit: 10})
						if len(found.Items) != want {
							t.Errorf("band %d to %d has %d items, expected %d", low, high, len(found.Items), want)
						}
						return err
					})
				}
			}
		}
	})
}

func TestTies(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		for _, priority := range []int64{1, 2} {
			for i := range 300 { // past the counts that one byte holds
				b.pushed("q", priority, fmt.Sprint(i))
			}
		}
		take := func(end fdbpq.End) string {
			t.Helper()
			var peeked fdbpq.Popped
			b.view(func(r kv.Reader) (err error) {
				peeked, err = b.Queue("q").Peek(r, fdbpq.Selection{End: end, Limit: 1})
				return err
			})
			popped := b.take("q", end, 1)
			if peeked.Items[0].ID != popped.Items[0].ID {
				t.Errorf("a peek that nobody disturbed shows %v, the pop takes %v", peeked.Items[0].ID, popped.Items[0].ID)
			}
			return fmt.Sprint(popped.Items[0].Priority, " ", string(popped.Items[0].Payload))
		}
		for i := range 3 {
			if got, want := take(fdbpq.Min), fmt.Sprint(1, " ", i); got != want {
				t.Errorf("min takes %s, expected %s", got, want)
			}
			if got, want := take(fdbpq.Max), fmt.Sprint(2, " ", 299-i); got != want {
				t.Errorf("max takes %s, expected %s", got, want)
			}
		}
		b.configure("q", `{"ties":"oldest"}`)
		for i := range 3 {
			if got, want := take(fdbpq.Max), fmt.Sprint(2, " ", i); got != want {
				t.Errorf("max takes %s with the oldest first, expected %s", got, want)
			}
		}
		// From one level to the next, within a batch.
		if got := b.take("q", fdbpq.Max, 1000).Items; len(got) != 591 || got[0].Priority != 2 || got[293].Priority != 2 ||
			got[294].Priority != 1 || string(got[294].Payload) != "3" {
			t.Errorf("a batch over two levels has %d items", len(got))
		}
	})
}

// Pushes at the same time may get the same count. Then chance orders them, for
// good.
func TestTiesOfConcurrentPushes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		other := b.another(0)
		var first, second []fdbpq.Pushed
		b.update(func(tx kv.Tx) (err error) {
			if first, err = b.Queue("q").Push(tx, fdbpq.NewItem{}); err != nil {
				return err
			}
			if second == nil {
				second = other.push("q", fdbpq.NewItem{})
			}
			return nil
		})
		// The first push made the queue, so one of them had to run again.
		if first[0].Seq != second[0].Seq+1 {
			t.Errorf("places %d and %d", first[0].Seq, second[0].Seq)
		}
		runs := 0
		second = nil
		b.update(func(tx kv.Tx) (err error) {
			runs++
			if first, err = b.Queue("q").Push(tx, fdbpq.NewItem{}); err != nil {
				return err
			}
			if second == nil {
				second = other.push("q", fdbpq.NewItem{})
			}
			return nil
		})
		if runs != 1 || first[0].Seq != second[0].Seq || first[0].ID == second[0].ID {
			t.Errorf("%d runs, places %d and %d", runs, first[0].Seq, second[0].Seq)
		}
		var orders []string
		for range 3 {
			popped := b.lease("q", fdbpq.Min, 10, time.Minute)
			var ids string
			for _, item := range popped.Items {
				ids += item.ID.String() + " "
				if err := b.nack(*item.Lease, 0); err != nil {
					t.Fatal(err)
				}
			}
			orders = append(orders, ids)
		}
		if len(slices.Compact(orders)) != 1 {
			t.Errorf("the order changes: %q", orders)
		}
		if next := b.push("q", fdbpq.NewItem{})[0]; next.Seq <= first[0].Seq {
			t.Errorf("the next place is %d", next.Seq)
		}
	})
}

// The count goes on when a priority, or the queue, has drained, or was purged,
// or deleted.
func TestCountNeverRestarts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		last := int64(0)
		again := func(what string) {
			t.Helper()
			p := b.push("q", fdbpq.NewItem{})[0]
			if p.Seq <= last {
				t.Errorf("after %s the place is %d, it was %d before", what, p.Seq, last)
			}
			last = p.Seq
		}
		again("the beginning")
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			b.take("q", end, 1)
			again("draining")
		}
		for what, fn := range map[string]func(kv.Tx) (int64, error){"a purge": b.Queue("q").Purge, "deletion": b.Queue("q").Delete} {
			b.update(func(tx kv.Tx) error {
				_, err := fn(tx)
				return err
			})
			again(what)
		}
	})
}

// What was away comes back to its own place.
func TestPlaceIsForLife(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"max_deliveries":0}`)
		b.pushed("q", 0, "a")
		b.push("q", fdbpq.NewItem{Payload: []byte("b"), Delay: time.Second})
		b.pushed("q", 0, "c", "d", "e")
		away := map[string]func(fdbpq.Lease){
			"nacked":     func(l fdbpq.Lease) { b.nack(l, 0) },
			"nacked for": func(l fdbpq.Lease) { b.nack(l, 10*time.Second) },
			"returned": func(l fdbpq.Lease) {
				b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Return(tx, l) })
			},
			"run out": func(fdbpq.Lease) {},
			"moved": func(l fdbpq.Lease) {
				b.update(func(tx kv.Tx) error {
					_, err := b.Queue("q").Move(tx, l.ID(), 99)
					return err
				})
				b.nack(l, 0)
				b.update(func(tx kv.Tx) error {
					_, err := b.Queue("q").Move(tx, l.ID(), 0)
					return err
				})
			},
		}
		b.pass(2 * time.Second)
		b.sweep()
		for how, fn := range away {
			popped := b.lease("q", fdbpq.Min, 3, time.Minute)
			if got := fmt.Sprint(payloads(popped.Items)); got != "[a b c]" {
				t.Fatalf("before %s: the first items are %s", how, got)
			}
			for i := range popped.Items {
				fn(*popped.Items[len(popped.Items)-1-i].Lease)
			}
			b.pass(2 * time.Minute)
			b.sweep()
		}
		if got := fmt.Sprint(payloads(b.take("q", fdbpq.Min, 10).Items)); got != "[a b c d e]" {
			t.Errorf("in the end there is %s", got)
		}
	})
}

// Unknown results of each kind, in each operation, do it once.
func TestUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		other := b.another(0)
		for _, kind := range []fault.Kind{fault.UnknownNever, fault.UnknownDone, fault.UnknownLate} {
			queue := kind.String()
			fail := func() { b.db.FailNext(kind) }
			after := func(what string, ready, leased int64) {
				t.Helper()
				b.db.Release()
				if n := other.counts(queue); n.Ready != ready || n.Leased != leased {
					t.Errorf("%v in a %s: %d items ready and %d leased, expected %d and %d", kind, what, n.Ready, n.Leased, ready, leased)
				}
			}
			fail()
			b.pushed(queue, 0, "one")
			after("push", 1, 0)
			b.pushed(queue, 0, "two", "three")
			fail()
			if got := payloads(b.take(queue, fdbpq.Min, 1).Items); len(got) != 1 || got[0] != "one" {
				t.Errorf("took %q", got)
			}
			after("pop", 2, 0)
			fail()
			item := b.leaseOne(queue, time.Minute)
			after("lease", 1, 1)
			if item.Deliveries != 1 || item.Lease.Fence != 1 {
				t.Errorf("%v in a lease: delivery %d, fence %d", kind, item.Deliveries, item.Lease.Fence)
			}
			fail()
			var extended fdbpq.Settled
			b.update(func(tx kv.Tx) (err error) {
				extended, err = b.Queue(queue).Extend(tx, *item.Lease, time.Hour)
				return err
			})
			after("extension", 1, 1)
			fail()
			if err := b.ack(*extended.Lease); err != nil {
				t.Errorf("%v in an acknowledgement: %v", kind, err)
			}
			after("acknowledgement", 1, 0)
			fail()
			item = b.leaseOne(queue, time.Minute)
			if err := b.nack(*item.Lease, 0); err != nil {
				t.Errorf("%v in a nack: %v", kind, err)
			}
			after("nack", 1, 0)
		}
	})
}

// A lost reply, a bridge that died between commit and reply, a retry somewhere
// else: the same id gets the same items.
func TestLostReply(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "one", "two", "three")
		for _, d := range []time.Duration{0, time.Minute} {
			pop := func(p *bench) (fdbpq.Popped, error) {
				sel := fdbpq.Selection{Limit: 1, PopID: fmt.Sprint("pop ", d)}
				var popped fdbpq.Popped
				session := p.Session()
				defer session.Release()
				err := session.Update(t.Context(), func(tx kv.Tx) (err error) {
					if d == 0 {
						popped, err = p.Queue("q").Pop(tx, sel)
					} else {
						popped, err = p.Queue("q").Lease(tx, sel, d)
					}
					return err
				})
				return popped, err
			}
			dead := b.another(0)
			dead.hook = func(at fault.Point) {
				if at == fault.AfterCommit {
					dead.db.Crash()
				}
			}
			if _, err := pop(dead); !errors.Is(err, kv.ErrUnknown) {
				t.Fatalf("the pop of a process that dies: %v", err)
			}
			first, err := pop(b)
			if err != nil {
				t.Fatal(err)
			}
			again, err := pop(b.another(0))
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Items) != 1 || len(again.Items) != 1 || first.Items[0].ID != again.Items[0].ID {
				t.Errorf("the pop answered %q, and then %q", payloads(first.Items), payloads(again.Items))
			}
			if n := b.counts("q"); d > 0 && (n.Ready != 1 || n.Leased != 1) || d == 0 && n.Ready != 2 {
				t.Errorf("after one pop there are %+v", n)
			}
			if d > 0 {
				if err := b.ack(*first.Items[0].Lease); err != nil {
					t.Error(err)
				}
				var lost *fdbpq.LostError
				if _, err := pop(b); !errors.As(err, &lost) || lost.Reason != fdbpq.LostGone {
					t.Errorf("the pop once more after its item is settled: %v", err)
				}
			}
		}
	})
}

// A pop that is repeated does not get the lease that somebody else holds by now.
func TestLostReplyAndLostLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "one", "two")
		pop := func(limit int) (popped fdbpq.Popped, err error) {
			session := b.Session()
			defer session.Release()
			err = session.Update(t.Context(), func(tx kv.Tx) (err error) {
				popped, err = b.Queue("q").Lease(tx, fdbpq.Selection{Limit: limit, PopID: "pop"}, time.Minute)
				return err
			})
			return popped, err
		}
		first, err := pop(2)
		if err != nil || len(first.Items) != 2 {
			t.Fatalf("popped %q, %v", payloads(first.Items), err)
		}
		if err := b.nack(*first.Items[0].Lease, 0); err != nil {
			t.Fatal(err)
		}
		other := b.another(0)
		theirs := other.leaseOne("q", time.Minute)
		again, err := pop(2)
		if got := payloads(again.Items); err != nil || len(got) != 1 || got[0] != "two" {
			t.Errorf("the repeated pop got %q, %v; the first item is leased to somebody else", got, err)
		}
		if err := other.ack(*theirs.Lease); err != nil {
			t.Errorf("the other holder: %v", err)
		}
	})
}

// The same id in two pushes, or two pops, at the same time: one of them is the
// first.
func TestSameIDAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		other := b.another(0)
		b.pushed("q", 0, "one", "two")
		runs := 0
		var own, theirs fdbpq.Pushed
		b.update(func(tx kv.Tx) error {
			pushed, err := b.Queue("q").Push(tx, fdbpq.NewItem{MsgID: "id"})
			if err != nil {
				return err
			}
			own = pushed[0]
			if runs++; runs == 1 {
				theirs = other.push("q", fdbpq.NewItem{MsgID: "id"})[0]
			}
			return nil
		})
		if runs != 2 || theirs.Duplicate || !own.Duplicate || own.ID != theirs.ID {
			t.Errorf("after %d runs: %+v, the other one %+v", runs, own, theirs)
		}
		pop := func(p *bench, tx kv.Tx, end fdbpq.End) (fdbpq.Popped, error) {
			return p.Queue("q").Lease(tx, fdbpq.Selection{End: end, Limit: 1, PopID: "id"}, time.Minute)
		}
		runs = 0
		err := b.fails(func(tx kv.Tx) error {
			if _, err := pop(b, tx, fdbpq.Min); err != nil {
				return err
			}
			if runs++; runs == 1 {
				other.update(func(tx kv.Tx) error {
					_, err := pop(other, tx, fdbpq.Max)
					return err
				})
			}
			return nil
		})
		if !errors.Is(err, fdbpq.ErrPopIDReused) {
			t.Errorf("a different pop with the same id: %v", err)
		}
	})
}

// Late acknowledgements: nobody took the item meanwhile, somebody did, somebody
// finished it.
func TestLateSettlement(t *testing.T) {
	t.Parallel()
	settle := map[string]func(*bench, fdbpq.Lease) error{
		"ack": (*bench).ack,
		"terminate": func(b *bench, l fdbpq.Lease) error {
			return b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Terminate(tx, l, "") })
		},
		"nack":       func(b *bench, l fdbpq.Lease) error { return b.nack(l, 0) },
		"nack later": func(b *bench, l fdbpq.Lease) error { return b.nack(l, time.Second) },
		"extend": func(b *bench, l fdbpq.Lease) error {
			return b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Extend(tx, l, time.Minute) })
		},
		"return": func(b *bench, l fdbpq.Lease) error {
			return b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Return(tx, l) })
		},
	}
	remove := func(b *bench, l fdbpq.Lease) {
		b.update(func(tx kv.Tx) error {
			_, err := b.Queue("q").Remove(tx, l.ID())
			return err
		})
	}
	purge := func(b *bench, l fdbpq.Lease) {
		b.update(func(tx kv.Tx) error {
			_, err := b.Queue("q").Purge(tx)
			return err
		})
	}
	for _, c := range []struct {
		what     string
		happened func(*bench, fdbpq.Lease)
		late     fdbpq.Lost // what acknowledging answers
		inTime   fdbpq.Lost // what the others answer
	}{
		{"nothing", func(*bench, fdbpq.Lease) {}, "", ""},
		{"ran out, nobody noticed", func(b *bench, _ fdbpq.Lease) { b.pass(time.Minute) }, "", fdbpq.LostExpired},
		{"ran out", func(b *bench, _ fdbpq.Lease) { b.pass(time.Minute); b.sweep() }, "", fdbpq.LostExpired},
		{"leased again", func(b *bench, _ fdbpq.Lease) { b.pass(time.Minute); b.sweep(); b.leaseOne("q", time.Minute) }, fdbpq.LostTaken, fdbpq.LostTaken},
		{"leased and returned again", func(b *bench, _ fdbpq.Lease) {
			b.pass(time.Minute)
			b.sweep()
			b.nack(*b.leaseOne("q", time.Minute).Lease, 0)
		}, fdbpq.LostTaken, fdbpq.LostTaken},
		{"taken for good", func(b *bench, _ fdbpq.Lease) { b.pass(time.Minute); b.sweep(); b.take("q", fdbpq.Min, 1) }, fdbpq.LostGone, fdbpq.LostGone},
		{"acknowledged", func(b *bench, l fdbpq.Lease) { b.ack(l) }, fdbpq.LostGone, fdbpq.LostGone},
		{"removed", remove, fdbpq.LostGone, fdbpq.LostGone},
		{"purged", purge, fdbpq.LostGone, fdbpq.LostGone},
		{"deleted and made again", func(b *bench, l fdbpq.Lease) {
			b.update(func(tx kv.Tx) error {
				_, err := b.Queue("q").Delete(tx)
				return err
			})
			b.pushed("q", 0, "another")
			b.leaseOne("q", time.Minute)
		}, fdbpq.LostGone, fdbpq.LostGone},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				b := openBench(t, open)
				for name, fn := range settle {
					b.pushed("q", 0, name)
					l := *b.leaseOne("q", time.Minute).Lease
					c.happened(b, l)
					before := b.counts("q")
					err := fn(b, l)
					want := c.inTime
					if name == "ack" || name == "terminate" {
						want = c.late
					}
					var lost *fdbpq.LostError
					switch {
					case want == "" && err != nil:
						t.Errorf("%s: %v", name, err)
					case want != "" && (!errors.As(err, &lost) || lost.Reason != want):
						t.Errorf("%s: %v, expected it to be lost: %s", name, err, want)
					case want != "" && b.counts("q") != before:
						t.Errorf("%s answered %v, and did something", name, err)
					}
					purge(b, l)
				}
			})
		})
	}
}

// Each reason why nothing was found is told apart.
func TestReasons(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		expect := func(want fdbpq.Reason) {
			t.Helper()
			b.view(func(r kv.Reader) error {
				found, err := b.Queue("q").Peek(r, fdbpq.Selection{Limit: 1})
				if found.Reason != want || len(found.Items) > 0 {
					t.Errorf("a peek finds %d items, reason %q, expected %q", len(found.Items), found.Reason, want)
				}
				return err
			})
			for _, popped := range []fdbpq.Popped{b.take("q", fdbpq.Max, 1), b.lease("q", fdbpq.Min, 1, time.Minute)} {
				if popped.Reason != want || len(popped.Items) > 0 {
					t.Errorf("a take gets %d items, reason %q, expected %q", len(popped.Items), popped.Reason, want)
				}
			}
		}
		expect(fdbpq.ReasonUnknown)
		b.configure("q", `{}`)
		expect(fdbpq.ReasonEmpty)
		b.push("q", fdbpq.NewItem{Delay: time.Hour})
		expect(fdbpq.ReasonDelayed)
		b.pushed("q", 0, "one")
		b.leaseOne("q", time.Hour)
		expect(fdbpq.ReasonLeased)
		b.update(b.Queue("q").Pause)
		b.pushed("q", 0, "two")
		expect(fdbpq.ReasonPaused)
		b.update(b.Queue("q").Resume)
		if got := payloads(b.take("q", fdbpq.Min, 1).Items); len(got) != 1 {
			t.Errorf("took %q after the pause", got)
		}
		b.update(func(tx kv.Tx) error {
			_, err := b.Queue("q").Delete(tx)
			return err
		})
		expect(fdbpq.ReasonUnknown)
	})
}

// readRows counts the rows that ranges return.
type readRows struct {
	kv.Tx
	rows int
}

func (r *readRows) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := r.Tx.Range(begin, end, opts)
	r.rows += len(pairs)
	return pairs, err
}

func (r *readRows) Snapshot() kv.Reader { return &snapshotRows{r.Tx.Snapshot(), r} }

type snapshotRows struct {
	kv.Reader
	of *readRows
}

func (s *snapshotRows) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	pairs, err := s.Reader.Range(begin, end, opts)
	s.of.rows += len(pairs)
	return pairs, err
}

// Leased and delayed items stand out of the way of whoever looks at the head.
func TestHeadIsNotSlowed(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		for range 2 {
			b.fill("q", 1000, fdbpq.NewItem{Priority: -1, HasPriority: true})
			b.lease("q", fdbpq.Min, 1000, time.Hour)
			b.fill("q", 1000, fdbpq.NewItem{Priority: -1, HasPriority: true, Delay: time.Hour})
		}
		b.pushed("q", 0, "one", "two")
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			b.update(func(tx kv.Tx) error {
				counted := &readRows{Tx: tx}
				popped, err := b.Queue("q").Pop(counted, fdbpq.Selection{End: end, Limit: 1})
				if len(popped.Items) != 1 || counted.rows > 2 {
					t.Errorf("a take of %d items read %d rows", len(popped.Items), counted.rows)
				}
				return err
			})
		}
	})
}

// Items past their TTL go wherever they stand, not only at the head.
func TestExpiryBehindTheHead(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "first")
		b.push("q", fdbpq.NewItem{Payload: []byte("mortal"), TTL: time.Second}, fdbpq.NewItem{Payload: []byte("delayed"), TTL: time.Second, Delay: time.Minute})
		b.pushed("q", 0, "last")
		b.pass(time.Second)
		if events := b.sweep(); len(events) != 2 {
			t.Errorf("two items outlived their TTL, the sweep tells of %v", events)
		}
		if n := b.counts("q"); n.Ready != 2 || n.Delayed != 0 || n.Expiring != 0 {
			t.Errorf("there are %+v", n)
		}
	})
}

// An item whose TTL ends while it is leased stays its holder's. When it comes
// back it goes at once, however it comes back.
func TestExpiryWhileLeased(t *testing.T) {
	t.Parallel()
	back := map[string]func(b *bench, l fdbpq.Lease) (fdbpq.Settled, error){
		"nacked":   func(b *bench, l fdbpq.Lease) (fdbpq.Settled, error) { return b.nacked(l, 0) },
		"delayed":  func(b *bench, l fdbpq.Lease) (fdbpq.Settled, error) { return b.nacked(l, time.Second) },
		"returned": (*bench).returned,
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		for what, fn := range back {
			b.push("q", fdbpq.NewItem{TTL: 10 * time.Second})
			item := b.leaseOne("q", time.Minute)
			b.pass(20 * time.Second)
			if events := b.sweep(); len(events) > 0 {
				t.Fatalf("while it is leased: %v", events)
			}
			settled, err := fn(b, *item.Lease)
			if err != nil || len(settled.Events) != 1 || settled.Events[0].Type != fdbpq.EventExpired {
				t.Errorf("an item past its TTL that is %s: %v, %v", what, settled.Events, err)
			}
			if n := b.counts("q"); n.Length() != 0 {
				t.Errorf("an item past its TTL that is %s is still there: %+v", what, n)
			}
		}
	})
}

func (b *bench) nacked(l fdbpq.Lease, delay time.Duration) (settled fdbpq.Settled, err error) {
	b.update(func(tx kv.Tx) error {
		settled, err = b.Queue(l.Queue).Nack(tx, l, delay)
		return err
	})
	return settled, err
}

func (b *bench) returned(l fdbpq.Lease) (settled fdbpq.Settled, err error) {
	b.update(func(tx kv.Tx) error {
		settled, err = b.Queue(l.Queue).Return(tx, l)
		return err
	})
	return settled, err
}

// Before the sweep comes, what is past its TTL is not handed out, and a take
// that finds nothing else says so.
func TestExpiredIsNotHandedOut(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.fill("q", 600, fdbpq.NewItem{TTL: time.Second})
		b.pushed("q", 5, "good")
		b.pass(time.Second)
		b.view(func(r kv.Reader) error {
			found, err := b.Queue("q").Peek(r, fdbpq.Selection{Limit: 1})
			if len(found.Items) != 1 || string(found.Items[0].Payload) != "good" {
				t.Errorf("a peek finds %q", payloads(found.Items))
			}
			return err
		})
		events := 0
		for rounds := 1; ; rounds++ {
			popped := b.take("q", fdbpq.Min, 1)
			events += len(popped.Events)
			if !popped.More {
				if got := payloads(popped.Items); len(got) != 1 || got[0] != "good" || events != 600 || rounds != 3 {
					t.Errorf("round %d took %q, after %d events", rounds, got, events)
				}
				break
			}
		}
	})
}

// A message id counts for its window, whatever became of the item.
func TestDeduplicationAfterTheEnd(t *testing.T) {
	t.Parallel()
	ends := map[string]func(b *bench, id fdbpq.ID){
		"it waits":     func(*bench, fdbpq.ID) {},
		"it was taken": func(b *bench, _ fdbpq.ID) { b.take("q", fdbpq.Min, 1) },
		"it was acknowledged": func(b *bench, _ fdbpq.ID) {
			if err := b.ack(*b.leaseOne("q", time.Second).Lease); err != nil {
				b.Error(err)
			}
		},
		"it died": func(b *bench, _ fdbpq.ID) {
			b.leaseOne("q", time.Second)
			b.pass(time.Second)
			b.sweep()
		},
		"it expired": func(b *bench, _ fdbpq.ID) {
			b.pass(30 * time.Second)
			b.sweep()
		},
		"it was removed": func(b *bench, id fdbpq.ID) {
			b.update(func(tx kv.Tx) error {
				_, err := b.Queue("q").Remove(tx, id)
				return err
			})
		},
		"all was purged": func(b *bench, _ fdbpq.ID) {
			b.update(func(tx kv.Tx) error {
				_, err := b.Queue("q").Purge(tx)
				return err
			})
		},
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				b := openBench(t, open)
				b.configure("q", `{"max_deliveries":1,"dedup_window":"1m"}`)
				item := fdbpq.NewItem{MsgID: "same", TTL: 30 * time.Second, Priority: 3, HasPriority: true}
				first := b.push("q", item)[0]
				end(b, first.ID)
				left := b.counts("q").Length()
				again := b.push("q", item)[0]
				if !again.Duplicate || again.ID != first.ID || again.Seq != first.Seq || again.Priority != 3 {
					t.Errorf("when %s, a second push answers %+v, the first %+v", what, again, first)
				}
				if n := b.counts("q").Length(); n != left {
					t.Errorf("when %s, a second push makes %d items of %d", what, n, left)
				}
				if other := b.push("another", item)[0]; other.Duplicate {
					t.Error("the id counts in another queue")
				}
				b.pass(time.Minute)
				if later := b.push("q", item)[0]; later.Duplicate || later.Err != nil {
					t.Errorf("after the window: %+v", later)
				}
			})
		})
	}
}

// An item that kills its workers is given up after its last delivery, keeps its
// priority and headers, and tells where it came from.
func TestPoison(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"max_deliveries":3}`)
		pushed := b.push("q", fdbpq.NewItem{Payload: []byte("poison"), Headers: []byte("headers"), Priority: 7, HasPriority: true})[0]
		for n := range int64(3) {
			item := b.leaseOne("q", time.Second)
			if item.Deliveries != n+1 || item.Lease.Fence != n+1 {
				t.Errorf("delivery %d says %d, fence %d", n+1, item.Deliveries, item.Lease.Fence)
			}
			b.pass(time.Second) // and the worker is dead
			b.sweep()
		}
		if n := b.counts("q").Length(); n != 0 {
			t.Errorf("%d items are left after the last delivery", n)
		}
		for range 20 { // its grave has no limit of its own
			item := b.leaseOne("q-dead", time.Second)
			want := fdbpq.DeadLetter{Reason: fdbpq.DeadMaxDeliveries, Origin: "q", OriginID: pushed.ID.String()}
			if item.Priority != 7 || string(item.Headers) != "headers" || *item.Dead != want || item.ID == pushed.ID {
				t.Fatalf("the dead item is %+v", item)
			}
			b.pass(time.Second)
			b.sweep()
		}
		// One that was not received does not count.
		b.pushed("q", 0, "lucky")
		for range 5 {
			item := b.leaseOne("q", time.Second)
			if item.Deliveries != 1 {
				t.Errorf("delivery %d, although none was received", item.Deliveries)
			}
			err := b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Return(tx, *item.Lease) })
			if err != nil {
				t.Fatal(err)
			}
		}
	})
}

// Names that begin like others, or are odd, keep their queues apart.
func TestQueuesDoNotMix(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		names := []string{"a", "a\x00", "a\x00\x01", "a\x01", "aa", "a\xff", "a.b", "a*", "a>", "ä", "", "\x00", "\xff", "a-dead"}
		for _, name := range names {
			b.push(name, fdbpq.NewItem{Payload: []byte(name), MsgID: "id", TTL: time.Hour}, fdbpq.NewItem{Payload: []byte(name), Delay: time.Second})
		}
		b.pass(time.Second)
		b.sweep()
		for i, name := range names {
			if i%3 == 0 {
				b.update(func(tx kv.Tx) error {
					n, err := b.Queue(name).Purge(tx)
					if n != 2 {
						t.Errorf("purged %d items of %q", n, name)
					}
					return err
				})
				for more := true; more; {
					var err error
					if more, err = b.CollectGarbage(t.Context()); err != nil {
						t.Fatal(err)
					}
				}
				continue
			}
			if got := payloads(b.take(name, fdbpq.Min, 10).Items); len(got) != 2 || got[0] != name || got[1] != name {
				t.Errorf("queue %q holds %q", name, got)
			}
		}
	})
}

// Ids are taken in the one form in which they are given out.
func TestIDs(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		id := b.pushed("q", -5, "one")[0]
		text := id.String()
		if parsed, err := fdbpq.ParseID(text); err != nil || parsed != id {
			t.Errorf("ParseID(%s): %v, %v", text, parsed, err)
		}
		for _, bad := range []string{"", "x", text[1:], text[:len(text)-1], text + "A", text + "=", text + "AA", strings.ToLower(text), " " + text} {
			if parsed, err := fdbpq.ParseID(bad); err == nil && parsed == id {
				t.Errorf("ParseID(%q) takes a second spelling", bad)
			}
		}
		for _, unknown := range []fdbpq.ID{{}, b.pushed("other", -5, "two")[0]} {
			if stored := b.get("q", unknown); stored != nil {
				t.Errorf("there is an item with id %v", unknown)
			}
		}
	})
}

// Pushing, taking and settling in one transaction with data of one's own, over
// several queues.
func TestComposition(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("in", 0, "work")
		leased := b.leaseOne("in", time.Minute)
		step := func(fail error) error {
			session := b.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				tx.Set([]byte("\xfeown"), []byte("data"))
				if _, err := b.Queue("out").Push(tx, fdbpq.NewItem{Payload: []byte("receipt")}, fdbpq.NewItem{Payload: []byte("for now")}); err != nil {
					return err
				}
				popped, err := b.Queue("out").Pop(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1})
				if err != nil {
					return err
				}
				if got := payloads(popped.Items); len(got) != 1 || got[0] != "for now" || popped.Ready != 1 {
					return fmt.Errorf("the transaction takes %q of its own pushes, %d are left", got, popped.Ready)
				}
				if _, err := b.Queue("in").Ack(tx, *leased.Lease); err != nil {
					return err
				}
				return fail
			})
		}
		own := errors.New("own")
		if err := step(own); err != own {
			t.Fatalf("Update returned %v, expected the closure's error", err)
		}
		if in, out := b.counts("in"), b.counts("out"); in.Leased != 1 || out.Length() != 0 {
			t.Errorf("a transaction that failed left %+v and %+v", in, out)
		}
		if err := step(nil); err != nil {
			t.Fatal(err)
		}
		if in, out := b.counts("in"), b.counts("out"); in.Length() != 0 || out.Ready != 1 {
			t.Errorf("the transaction left %+v and %+v", in, out)
		}
		b.update(func(tx kv.Tx) error {
			tx.Clear([]byte("\xfeown"))
			return nil
		})
	})
}

// A take reads the head without depending on it: pushes, before it and behind
// it, do not make it run again. The recipe's does.
func TestPopDoesNotConflictWithPush(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		other := b.another(0)
		for _, c := range []struct {
			what string
			take func(kv.Tx, fdbpq.Selection) (fdbpq.Popped, error)
			runs int
		}{{"Pop", b.Queue("q").Pop, 1}, {"PopRecipe", b.Queue("q").PopRecipe, 2}} {
			b.pushed("q", 0, "one", "two", "three")
			runs := 0
			var popped fdbpq.Popped
			b.update(func(tx kv.Tx) (err error) {
				runs++
				if popped, err = c.take(tx, fdbpq.Selection{Limit: 1}); err != nil {
					return err
				}
				if runs == 1 {
					other.pushed("q", -1, "more urgent")
					other.pushed("q", 1, "less urgent")
				}
				return nil
			})
			if runs != c.runs || len(popped.Items) != 1 {
				t.Errorf("%s ran %d times next to a push, expected %d", c.what, runs, c.runs)
			}
		}
	})
}

// Whichever request is fulfilled by whom, it gets from its own end, and no more
// than it asked for.
func TestStagedDirection(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		for i := range 6 {
			b.pushed("q", int64(i), fmt.Sprint(i))
		}
		requests := []*fdbpq.StagedRequest{
			fdbpq.NewStagedRequest(b.Store, "q", fdbpq.Selection{End: fdbpq.Max, Limit: 1}),
			fdbpq.NewStagedRequest(b.Store, "q", fdbpq.Selection{End: fdbpq.Min, Limit: 1}),
			fdbpq.NewStagedRequest(b.Store, "q", fdbpq.Selection{End: fdbpq.Max, Limit: 1, Band: &fdbpq.Band{Low: 0, High: 2}}),
		}
		for _, r := range requests {
			if err := r.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		popped, err := b.another(0).PopStaged(t.Context(), "q", fdbpq.Selection{End: fdbpq.Min, Limit: 2}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(payloads(popped.Items)); got != "[1 3]" {
			t.Errorf("the last request got %s", got)
		}
		for i, want := range []string{"[5]", "[0]", "[2]"} {
			popped, answered, err := requests[i].Fetch(t.Context())
			if err != nil || !answered {
				t.Fatalf("request %d: answered %v, %v", i, answered, err)
			}
			if got := fmt.Sprint(payloads(popped.Items)); got != want {
				t.Errorf("request %d got %s, expected %s", i, got, want)
			}
		}
	})
}

// A request is answered once: who answers it late, by what the queue was like
// earlier, changes nothing.
func TestStagedAnswersOnce(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{}`)
		sel := fdbpq.Selection{Limit: 1}
		request := fdbpq.NewStagedRequest(b.Store, "q", sel)
		if err := request.Register(t.Context()); err != nil {
			t.Fatal(err)
		}
		late, parked, resume := b.another(0), make(chan struct{}), make(chan struct{})
		commits := 0
		late.hook = func(at fault.Point) {
			if at != fault.BeforeCommit {
				return
			}
			if commits++; commits == 2 { // behind its own registration: it answers
				close(parked)
				<-resume
			}
		}
		done := make(chan error, 1)
		go func() {
			popped, err := late.PopStaged(t.Context(), "q", sel, 0)
			if len(popped.Items) > 0 {
				err = fmt.Errorf("took %q", payloads(popped.Items))
			}
			done <- err
		}()
		<-parked
		b.pushed("q", 0, "one")
		if _, err := b.another(0).PopStaged(t.Context(), "q", sel, 0); err != nil {
			t.Fatal(err)
		}
		popped, answered, err := request.Fetch(t.Context())
		if got := payloads(popped.Items); err != nil || !answered || len(got) != 1 {
			t.Errorf("the request got %q, %v", got, err)
		}
		close(resume)
		if err := <-done; err != nil {
			t.Error(err)
		}
		if rows := b.rows("e"); len(rows) > 0 {
			t.Errorf("there are %d results that nobody will collect", len(rows))
		}
	})
}

// Unknown results in the steps of staged takes neither lose an item nor hand it
// out twice, and leave no request behind.
func TestStagedUnknownResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		const items = 120
		for i := range items {
			b.pushed("q", 0, fmt.Sprint(i))
		}
		var mu sync.Mutex
		var got []string
		var wg sync.WaitGroup
		for i := range uint64(4) {
			db := fault.Wrap(b.base, fault.Options{Seed: i, Yield: true})
			s, err := fdbpq.Open(t.Context(), db, b.clock.options(0))
			if err != nil {
				t.Fatal(err)
			}
			db.SetChances(fault.Chances{fault.Conflict: 0.2, fault.UnknownNever: 0.1, fault.UnknownDone: 0.1, fault.UnknownLate: 0.1})
			wg.Go(func() {
				defer db.Release()
				for {
					popped, err := s.PopStaged(t.Context(), "q", fdbpq.Selection{Limit: 2}, 0)
					if err != nil {
						t.Error(err)
						return
					}
					if len(popped.Items) == 0 && popped.Reason == fdbpq.ReasonEmpty {
						return
					}
					mu.Lock()
					got = append(got, payloads(popped.Items)...)
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		slices.Sort(got)
		if n := len(slices.Compact(slices.Clone(got))); n != items || len(got) != items {
			t.Errorf("took %d items, %d different ones, of %d", len(got), n, items)
		}
		for _, space := range []string{"o", "e"} {
			if rows := b.rows(space); len(rows) > 0 {
				t.Errorf("%d rows of requests are left", len(rows))
			}
		}
	})
}

// Many requests for many large items are answered bit by bit.
func TestStagedLargeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.fill("q", 40, fdbpq.NewItem{Payload: make([]byte, 32<<10)})
		b.fill("q", 40, fdbpq.NewItem{Payload: make([]byte, 600_000)})
		var requests []*fdbpq.StagedRequest
		for range 7 {
			r := fdbpq.NewStagedRequest(b.Store, "q", fdbpq.Selection{Limit: 20, End: fdbpq.Min})
			if err := r.Register(t.Context()); err != nil {
				t.Fatal(err)
			}
			requests = append(requests, r)
		}
		last, err := b.PopStaged(t.Context(), "q", fdbpq.Selection{Limit: 1000}, 0)
		if err != nil {
			t.Fatal(err)
		}
		n := len(last.Items)
		for _, r := range requests {
			popped, answered, err := r.Fetch(t.Context())
			if err != nil || !answered {
				t.Fatalf("answered %v, %v", answered, err)
			}
			n += len(popped.Items)
		}
		for b.counts("q").Ready > 0 {
			n += len(b.take("q", fdbpq.Min, 1000).Items)
		}
		if n != 80 {
			t.Errorf("took %d of 80 items", n)
		}
	})
}

// A purge of whatever size is a moment's work, and what it leaves behind goes
// bit by bit.
func TestPurgeIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.fill("q", 2000, fdbpq.NewItem{})
		b.fill("q", 700, fdbpq.NewItem{TTL: time.Hour})
		b.fill("q", 700, fdbpq.NewItem{Delay: time.Hour, TTL: time.Hour})
		b.fill("q", 20, fdbpq.NewItem{Payload: make([]byte, 100_000)})
		b.lease("q", fdbpq.Min, 1000, time.Minute)
		id := b.pushed("q", 0, "last")[0]
		b.update(func(tx kv.Tx) error {
			counted := &readRows{Tx: tx}
			n, err := b.Queue("q").Purge(counted)
			if n != 3421 || counted.rows > 10 {
				t.Errorf("purged %d items, read %d rows", n, counted.rows)
			}
			return err
		})
		if b.counts("q") != (fdbpq.Counts{}) || b.get("q", id) != nil {
			t.Errorf("after the purge there are %+v", b.counts("q"))
		}
		b.pushed("q", 0, "new")
		rounds := 0
		for more := true; more; rounds++ {
			var err error
			if more, err = b.CollectGarbage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if rounds < 4 {
			t.Errorf("collected all in %d rounds", rounds)
		}
		for _, space := range []string{"i", "d", "l", "x", "z", "g"} {
			if rows := b.rows(space); len(rows) > 1 {
				t.Errorf("%d rows of kind %q are left", len(rows), space)
			}
		}
	})
}

// A purge in the middle of a transaction whose changes know of each other: what
// follows is done to the new generation.
func TestPurgeAmongChanges(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "one", "two", "three")
		first, second := *b.leaseOne("q", time.Minute).Lease, *b.leaseOne("q", time.Minute).Lease
		b.update(func(tx kv.Tx) error {
			q := b.Queue("q").In(tx)
			if _, err := q.Ack(tx, first); err != nil {
				return err
			}
			if popped, err := q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute); err != nil || string(popped.Items[0].Payload) != "three" {
				return fmt.Errorf("before the purge: %+v, %v", popped, err)
			}
			if _, err := q.Purge(tx); err != nil {
				return err
			}
			var lost *fdbpq.LostError
			if _, err := q.Ack(tx, second); !errors.As(err, &lost) || lost.Reason != fdbpq.LostGone {
				return fmt.Errorf("acknowledgement of what was purged: %v", err)
			}
			if _, err := q.Push(tx, fdbpq.NewItem{Payload: []byte("new")}, fdbpq.NewItem{Payload: []byte("newer")}); err != nil {
				return err
			}
			if popped, err := q.Lease(tx, fdbpq.Selection{Limit: 1}, time.Minute); err != nil || string(popped.Items[0].Payload) != "new" {
				return fmt.Errorf("after the purge: %+v, %v", popped, err)
			}
			return nil
		})
		if n := b.counts("q"); n.Ready != 1 || n.Leased != 1 {
			t.Errorf("%+v", n)
		}
		if item := b.leaseOne("q", time.Minute); string(item.Payload) != "newer" {
			t.Errorf("took %q", item.Payload)
		}
	})
}

// A transaction that began before a purge and commits when all is cleared leaves
// nothing in the key space that nobody will look at again.
func TestPurgeUnderSlowTransactions(t *testing.T) {
	t.Parallel()
	slow := map[string]func(b *bench, tx kv.Tx, l fdbpq.Lease) error{
		"push": func(b *bench, tx kv.Tx, _ fdbpq.Lease) error {
			_, err := b.Queue("q").Push(tx, fdbpq.NewItem{TTL: time.Hour})
			return err
		},
		"lease": func(b *bench, tx kv.Tx, _ fdbpq.Lease) error {
			_, err := b.Queue("q").Lease(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1}, time.Minute)
			return err
		},
		"nack": func(b *bench, tx kv.Tx, l fdbpq.Lease) error {
			_, err := b.Queue("q").Nack(tx, l, time.Minute)
			return err
		},
		"extend": func(b *bench, tx kv.Tx, l fdbpq.Lease) error {
			_, err := b.Queue("q").Extend(tx, l, time.Hour)
			return err
		},
		"move": func(b *bench, tx kv.Tx, l fdbpq.Lease) error {
			_, err := b.Queue("q").Move(tx, l.ID(), 5)
			return err
		},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		other := b.another(0)
		for what, do := range slow {
			b.pushed("q", 0, "one", "two")
			lease := *b.leaseOne("q", time.Minute).Lease
			runs := 0
			session := b.Session()
			err := session.Update(t.Context(), func(tx kv.Tx) error {
				if err := do(b, tx, lease); err != nil {
					return err
				}
				if runs++; runs == 1 {
					other.purge("q")
				}
				return nil
			})
			session.Release()
			var lost *fdbpq.LostError
			if err != nil && !errors.As(err, &lost) {
				t.Errorf("%s: %v", what, err)
			}
			other.purge("q") // of a push, which comes again
			for _, space := range []string{"i", "d", "l", "f", "x", "z", "g"} {
				if rows := b.rows(space); len(rows) > 0 {
					t.Errorf("a slow %s leaves %d rows of kind %q", what, len(rows), space)
				}
			}
		}
	})
}

// purge empties a queue and clears what was in it.
func (b *bench) purge(queue string) {
	b.Helper()
	b.update(func(tx kv.Tx) error {
		_, err := b.Queue(queue).Purge(tx)
		return err
	})
	for more := true; more; {
		var err error
		if more, err = b.CollectGarbage(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}

// Programs that follow the recipe read our items, and we read theirs, without
// spoiling our counters.
func TestRecipeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 5, "ours")
		row := b.rows("i")[0]
		payload, _, err := tuple.ConsumeBytes(row.Value)
		if err != nil || string(payload) != "ours" {
			t.Errorf("the first element of our value is %q, %v", payload, err)
		}
		theirs := map[string][]byte{
			"raw":   []byte("raw"),
			"bytes": tuple.AppendBytes(nil, []byte("bytes")),
			"text":  tuple.AppendString(nil, "text"),
			"":      {},
		}
		key := func(priority, count int64) []byte {
			b := tuple.AppendInt(tuple.AppendString(tuple.AppendString(nil, "i"), "q"), 1)
			return tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(b, priority), count), bytes.Repeat([]byte{0}, 20))
		}
		push := func() {
			b.update(func(tx kv.Tx) error {
				n := int64(0)
				for _, value := range theirs {
					tx.Set(key(n, 1000), value)
					n++
				}
				return nil
			})
		}
		push()
		q := b.Queue("q")
		item := b.leaseOne("q", time.Minute)
		if n := b.counts("q"); n.Ready != 1 || n.Leased != 1 || n.Bytes != 4+item.Size {
			t.Errorf("with one of theirs leased there are %+v", n)
		}
		if err := b.nack(*item.Lease, 0); err != nil {
			t.Error(err)
		}
		if n := b.counts("q"); n.Ready != 2 || n.Leased != 0 {
			t.Errorf("with one of theirs returned there are %+v", n)
		}
		for _, got := range b.take("q", fdbpq.Min, 10).Items {
			if _, ok := theirs[string(got.Payload)]; !ok && string(got.Payload) != "ours" {
				t.Errorf("took %q", got.Payload)
			}
		}
		if n := b.counts("q"); n != (fdbpq.Counts{}) {
			t.Errorf("an empty queue has %+v", n)
		}
		push()
		b.update(func(tx kv.Tx) error {
			popped, err := q.Peek(tx, fdbpq.Selection{Limit: 10})
			if err != nil {
				return err
			}
			if _, err := q.Move(tx, popped.Items[0].ID, 7); err != nil {
				return err
			}
			_, err = q.Remove(tx, popped.Items[1].ID)
			return err
		})
		if n := b.counts("q"); n.Ready != 1 {
			t.Errorf("with one of theirs moved and one removed there are %+v", n)
		}
		b.take("q", fdbpq.Min, 10)
	})
}

// Rows of other programs whose priorities are no 64-bit integers are in nobody's
// way: neither at the ends, where floats and larger integers sort, nor in lists,
// nor when the queue is purged.
func TestPrioritiesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.configure("q", `{"ties":"oldest"}`)
		ours := b.pushed("q", math.MinInt64, "first")
		ours = append(ours, b.pushed("q", math.MaxInt64, "last")...)
		for _, priority := range [][]byte{
			{0x00}, // null
			tuple.AppendString(nil, "5"),
			append([]byte{0x0b, 0xf6}, make([]byte, 9)...),               // a negative number of 9 bytes
			append([]byte{0x0c}, make([]byte, 8)...),                     // -2⁶⁴ + 1
			append([]byte{0x1c}, bytes.Repeat([]byte{0xff}, 8)...),       // 2⁶⁴ - 1, which Go's bindings decode as uint64
			append([]byte{0x1d, 0x09}, bytes.Repeat([]byte{0xff}, 9)...), // a number of 9 bytes
			{0x20, 0x80, 0, 0, 0},                                        // float32 0
			{0x21, 0xff, 0xf8, 0, 0, 0, 0, 0, 0},                         // not a number
			{0x21, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},       // -0.0
			{0x27}, // true
		} {
			key := tuple.AppendInt(tuple.AppendString(tuple.AppendString(nil, "i"), "q"), 1)
			key = tuple.AppendBytes(tuple.AppendInt(append(key, priority...), 1), make([]byte, 20))
			b.update(func(tx kv.Tx) error {
				tx.Set(key, []byte("stranger"))
				return nil
			})
			for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
				popped := b.lease("q", end, 10, time.Minute)
				if got := payloads(popped.Items); len(got) != 2 {
					t.Errorf("beside priority %x, end %d hands out %q", priority, end, got)
				}
				for _, item := range popped.Items {
					b.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return b.Queue("q").Return(tx, *item.Lease) })
				}
			}
			b.view(func(r kv.Reader) error {
				for _, after := range []*fdbpq.ID{nil, &ours[0], &ours[1]} {
					page, err := b.Queue("q").List(r, fdbpq.Listing{Limit: 10, After: after})
					if err != nil {
						t.Errorf("beside priority %x: a list: %v", priority, err)
					}
					for _, item := range page.Items {
						if string(item.Payload) == "stranger" {
							t.Errorf("beside priority %x: a list shows it", priority)
						}
					}
				}
				return nil
			})
			problems, err := b.Check(t.Context())
			if err != nil || len(problems) > 0 {
				t.Errorf("beside priority %x: %q, %v", priority, problems, err)
			}
		}
		b.push("q", fdbpq.NewItem{TTL: time.Hour}) // so that rows are collected one by one
		b.update(func(tx kv.Tx) error {
			_, err := b.Queue("q").Purge(tx)
			return err
		})
		for more := true; more; {
			var err error
			if more, err = b.CollectGarbage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if rows := b.rows("i"); len(rows) > 0 {
			t.Errorf("%d rows are left", len(rows))
		}
	})
}
