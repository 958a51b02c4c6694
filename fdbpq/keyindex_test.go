package fdbpq_test

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// A new limit lets keys go at once if they are few, and the others with the next sweeps.
func TestKeyLimitOfManyKeys(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const keys = 150
		f.configure("q", `{"key_limit":1}`)
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 0, 2)
		}
		f.lease("q", fdbpq.Min, keys, time.Hour)
		f.blocked("q")
		f.configure("q", `{"key_limit":2}`)
		total := 0
		for round := range 3 {
			taken := f.lease("q", fdbpq.Min, fdbpq.MaxBatch, time.Hour)
			if total += len(taken.Items); round == 0 && total != 64 || round > 0 && total < keys && total != 64*(round+1) {
				t.Errorf("after %d sweeps %d keys were let go", round, total)
			}
			f.sweep()
		}
		if total != keys {
			t.Errorf("%d of %d keys were let go", total, keys)
		}
		f.sound()
	})
}

// A pop that meets many keys that may have no more clears their rows, a bounded number
// at a time, and the next pops do not meet them.
func TestBlockedKeysAreMetOnce(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		const keys = 300
		f.configure("q", `{"key_limit":1}`)
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 1, 2)
		}
		leased := f.lease("q", fdbpq.Min, keys, time.Hour).Items
		if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
			return f.Queue("q").Extend(tx, *leased[0].Lease, time.Hour)
		}); err != nil {
			t.Fatal(err)
		}
		if n := len(f.rows("kh")); n > 0 {
			t.Errorf("%d keys that may have no more have rows", n)
		}
		for i := range keys {
			f.keyed("q", fmt.Sprintf("key%03d-", i), 0, 1)
		}
		f.pushed("q", 9, "free")
		if n := len(f.rows("kh")); n != keys {
			t.Errorf("there are %d rows of keys before the pop", n)
		}
		if first := f.lease("q", fdbpq.Min, 1, time.Hour); len(first.Items) > 0 || !first.More {
			t.Errorf("the first pop took %q, more %t", payloads(first.Items), first.More)
		}
		f.takes("q", 1, "free")
		if n := len(f.rows("kh")); n > 0 {
			t.Errorf("%d rows of keys are left", n)
		}
		f.sound()
	})
}

// A row that was written for an item that another transaction took leads to the next
// one.
func TestRowOfKeyLeadsToNextItem(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"key_limit":1}`, `{"key_order":true}`} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			f.configure("q", config)
			f.keyed("q", "a", 0, 1)
			f.push("q", fdbpq.NewItem{Payload: []byte("a1"), Key: "a", Priority: 5, HasPriority: true})
			early := f.rows("kh")
			item := f.takes("q", 1, "a0")[0]
			f.pushed("q", 3, "free")
			f.keyed("q", "gone", -1, 1)
			gone := f.rows("kh")
			if err := f.ack(*f.takes("q", 1, "gone0")[0].Lease); err != nil {
				t.Fatal(err)
			}
			if err := f.ack(*item.Lease); err != nil {
				t.Fatal(err)
			}
			// As if both had been written after the items were taken; and the key's own is gone.
			f.update(func(tx kv.Tx) error {
				for _, row := range f.rows("kh") {
					tx.Clear(row.Key)
				}
				for _, row := range slices.Concat(early, gone) {
					tx.Set(row.Key, row.Value)
				}
				return nil
			})
			f.sound()
			if peeked := f.peek("q", 2); !slices.Equal(peeked, []string{"free", "a1"}) {
				t.Errorf("a peek shows %q", peeked)
			}
			f.takes("q", 1, "free") // and the key's row stands where it belongs
			f.sound()
			f.takes("q", 1, "a1")
			if n := len(f.rows("kh")); n > 0 {
				t.Errorf("%d rows of keys are left", n)
			}
		})
	}
}

// A queue whose items have no keys is stored as before; one whose items have is refused
// by versions that do not know keys.
func TestQueueWithoutKeysKeepsItsLayout(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one")
		f.leaseOne("q", time.Minute)
		for _, space := range []string{"ik", "kr", "kb", "kl", "kh"} {
			if n := len(f.rows(space)); n > 0 {
				t.Errorf("%d rows of kind %q", n, space)
			}
		}
	})
}

// A key has rows only as long as it has items.
func TestKeysAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		none := func(what string) {
			t.Helper()
			for _, space := range []string{"ik", "kr", "kb", "kl", "kh"} {
				if rows := f.rows(space); len(rows) > 0 {
					t.Errorf("%s: there are rows such as %q", what, rows[0].Key)
				}
			}
		}
		for _, config := range []string{`{}`, `{"key_limit":1}`, `{"key_limit":0,"key_order":true}`} {
			f.configure("q", config)
			f.keyed("q", "a", 0, 3)
			for range 3 {
				if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil {
					t.Fatal(err)
				}
				if err := f.ack(*f.leaseOne("q", time.Minute).Lease); err != nil {
					t.Fatal(err)
				}
			}
			none(config + ", acknowledged")
			for _, id := range f.keyed("q", "a", 0, 3) {
				f.remove("q", id)
			}
			none(config + ", removed")
			f.push("q", fdbpq.NewItem{Key: "a", TTL: time.Second})
			f.pass(2 * time.Second)
			f.sweep()
			none(config + ", expired")
			f.push("q", fdbpq.NewItem{Key: "a", TTL: time.Hour, Priority: 9, HasPriority: true})
			f.keyed("q", "a", 0, 3)
			f.leaseOne("q", time.Minute)
			f.purge("q")
			f.collectGarbage()
			none(config + ", purged")
			f.pass(30 * time.Second)
			f.sweep()
			f.forgotten()
			if timers := f.rows("z"); len(timers) > 0 {
				t.Errorf("%s, purged: there are timers such as %q", config, timers[0].Key)
			}
		}
		f.keyed("q", "a", 0, 3)
		f.leaseOne("q", time.Minute)
		f.delete("q")
		f.collectGarbage()
		none("deleted")
	})
}

// A waiting pop gets an item when one of its key is settled, expires, or may be joined by
// another one.
func TestPopWaitForKey(t *testing.T) {
	t.Parallel()
	for name, let := range map[string]func(*fixture, fdbpq.Lease){
		"acknowledged": func(f *fixture, l fdbpq.Lease) {
			if err := f.ack(l); err != nil {
				f.Error(err)
			}
		},
		"dead": func(f *fixture, l fdbpq.Lease) {
			if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Terminate(tx, l, "") }); err != nil {
				f.Error(err)
			}
		},
		"removed": func(f *fixture, l fdbpq.Lease) {
			f.remove("q", l.ID())
		},
		"not limited": func(f *fixture, _ fdbpq.Lease) { f.configure("q", `{"key_limit":2}`) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"key_limit":1}`)
				f.keyed("q", "a", 0, 2)
				first := f.takes("q", 1, "a0")[0]
				waiter := f.another(0)
				tried := make(chan struct{})
				tries := sync.OnceFunc(func() { close(tried) })
				waiter.hook = func(at fault.Point) {
					if at == fault.BeforeCommit {
						tries()
					}
				}
				got := make(chan error, 1)
				go func() {
					popped, err := waiter.Wait(t.Context(), "q", fdbpq.Selection{Limit: 1}, time.Minute)
					if err == nil && !slices.Equal(payloads(popped.Items), []string{"a1"}) {
						err = fmt.Errorf("it got %q", payloads(popped.Items))
					}
					got <- err
				}()
				<-tried // and has found nothing
				let(f, *first.Lease)
				if err := <-got; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A push that relies on the item in front of its own runs again when that one is taken
// meanwhile, so that pops find the new item at its place.
func TestPushBesidePopOfItsKey(t *testing.T) {
	t.Parallel()
	for _, config := range []string{`{"key_limit":1}`, `{"key_order":true}`} {
		eachEngine(t, func(t *testing.T, open func() kv.DB) {
			f := openFixture(t, open)
			other := f.another(0)
			f.configure("q", config)
			push := func(payload string, priority int64, key string) {
				f.push("q", fdbpq.NewItem{Payload: []byte(payload), Key: key, Priority: priority, HasPriority: true})
			}
			push("first", 0, "k")
			push("last", 9, "k")
			push("free", 7, "")
			f.hook = func(at fault.Point) {
				if at == fault.BeforeCommit {
					f.hook = nil
					if err := other.ack(*other.takes("q", 1, "first")[0].Lease); err != nil {
						t.Error(err)
					}
				}
			}
			push("between", 5, "k")
			f.sound()
			f.takes("q", 2, "between", "free")
		})
	}
}

// A pop that clears a row which leads to nothing does not clear the one that a delayed
// item writes as it returns to the same place: it depends on the leases of the key, and
// the item that returns ends one.
func TestPopBesideItemThatReturns(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.configure("q", `{"key_limit":1}`)
		f.keyed("q", "a", 0, 1)
		early := f.rows("kh")
		if err := f.nack(*f.takes("q", 1, "a0")[0].Lease, time.Second); err != nil {
			t.Fatal(err)
		}
		f.update(func(tx kv.Tx) error {
			tx.Set(early[0].Key, early[0].Value)
			return nil
		})
		together(2*time.Second, f, other)
		f.hook = func(at fault.Point) {
			if at == fault.BeforeCommit {
				f.hook = nil
				other.sweep()
			}
		}
		f.takes("q", 1, "a0") // in a second run
		f.sound()
	})
}
