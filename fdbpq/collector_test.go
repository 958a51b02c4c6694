package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A deleted queue leaves no row behind, and a queue of the same name starts anew: leases
// of the old one are lost, and waiting pops are woken.
func TestDeletedQueueLeavesNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		var old fdbpq.Lease
		var id fdbpq.ID
		var arrivals []string
		for round := range 3 {
			name := "mortal"
			if round == 0 {
				id = f.pushed(name, 0, "one")[0]
			} else if one := f.imports(name, fdbpq.Import{ID: id})[0]; one.Err != nil {
				t.Fatal(one.Err)
			}
			item := f.leaseOne(name, time.Hour)
			if round > 0 {
				if why := lost(f.ack(old)); why != fdbpq.LostGone {
					t.Errorf("round %d: acknowledging what was leased before the queue was deleted: %q", round, why)
				}
			}
			old = *item.Lease
			for _, row := range f.rows("a") {
				arrivals = append(arrivals, string(row.Value))
			}
			f.push(name, fdbpq.NewItem{MsgID: "id", TTL: time.Hour}, fdbpq.NewItem{Delay: time.Hour})
			f.configure(name, `{"ttl":"1h"}`)
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(name).Purge(tx)
				return err
			})
			f.pushed(name, 1, "two")
			f.delete(name)
			f.collectGarbage()
			if fdbpq.KnowsQueue(f.Store, name) {
				t.Errorf("round %d: the process remembers the queue", round)
			}
			f.pass(2 * time.Minute)
			f.sweep()
			prefix := tuple.AppendString(nil, name)
			for _, row := range everything(t, f.base) {
				if len(row.Key) > 3 && string(row.Key[3:min(len(row.Key), 3+len(prefix))]) == string(prefix) {
					t.Errorf("round %d: there is a row %q = %q", round, row.Key, row.Value)
				}
			}
			f.pass(time.Hour)
			f.sweep()
		}
		if len(arrivals) != 3 || arrivals[0] == arrivals[1] || arrivals[1] == arrivals[2] {
			t.Errorf("arrivals are %q: whoever watched an earlier queue would not be woken", arrivals)
		}
	})
}

// What a queue that is made again begins with does not depend on whether the rows of the one
// that was deleted are cleared.
func TestQueueMadeAgainCountsFromOne(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, collected := range []bool{false, true} {
			f.pushed("q", 0, "a", "b", "c")
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Delete(tx)
				return err
			})
			for collected {
				more, err := f.CollectGarbage(f.Context())
				if err != nil {
					t.Fatal(err)
				}
				collected = more
			}
			if seq := f.push("q", fdbpq.NewItem{})[0].Seq; seq != 1 {
				t.Errorf("the first push of the queue that was made again has the number %d, expected 1", seq)
			}
		}
	})
}

// Clearing a leased item, which has no timer for its TTL, leaves none of other items behind.
func TestGarbageLeavesNoTimers(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.push("q", fdbpq.NewItem{TTL: time.Hour}, fdbpq.NewItem{TTL: time.Hour})
		f.leaseOne("q", time.Hour)
		f.purge("q")
		if rows := f.rows("z"); len(rows) > 0 {
			t.Errorf("%d timers are left: %q", len(rows), rows)
		}
	})
}

// One process at a time clears garbage: the one that sweeps.
func TestSweeperClearsGarbage(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		sweeper := openFixture(t, open)
		other := sweeper.another(0)
		sweeper.pushed("q", 0, "one")
		sweeper.update(func(tx kv.Tx) error {
			_, err := sweeper.Queue("q").Purge(tx)
			return err
		})
		sweeper.push("other", fdbpq.NewItem{Delay: time.Second})
		together(time.Second, sweeper, other)
		if swept, err := sweeper.Sweep(t.Context()); err != nil || swept.Timers != 1 {
			t.Fatalf("%+v, %v", swept, err)
		}
		for _, c := range []struct {
			what string
			who  *fixture
			left int
		}{{"another process", other, 1}, {"the one that sweeps", sweeper, 0}} {
			if _, err := c.who.CollectGarbage(t.Context()); err != nil {
				t.Fatal(err)
			}
			if rows := sweeper.rows("g"); len(rows) != c.left {
				t.Errorf("after %s has collected, %d generations are left, expected %d", c.what, len(rows), c.left)
			}
		}
	})
}

// A purge of any size takes constant time, and its rows are cleared in bounded steps.
func TestPurgeIsBounded(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 2000, fdbpq.NewItem{})
		f.fill("q", 700, fdbpq.NewItem{TTL: time.Hour})
		f.fill("q", 700, fdbpq.NewItem{Delay: time.Hour, TTL: time.Hour})
		f.fill("q", 20, fdbpq.NewItem{Payload: make([]byte, 100_000)})
		f.lease("q", fdbpq.Min, 1000, time.Minute)
		id := f.pushed("q", 0, "last")[0]
		f.update(func(tx kv.Tx) error {
			counted := &readRows{Tx: tx}
			n, err := f.Queue("q").Purge(counted)
			if n != 3421 || counted.rows > 10 {
				t.Errorf("purged %d items, read %d rows", n, counted.rows)
			}
			return err
		})
		if f.counts("q") != (fdbpq.Counts{}) || f.get("q", id) != nil {
			t.Errorf("after the purge there are %+v", f.counts("q"))
		}
		f.pushed("q", 0, "new")
		rounds := 0
		for more := true; more; rounds++ {
			var err error
			if more, err = f.CollectGarbage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if rounds < 4 {
			t.Errorf("collected all in %d rounds", rounds)
		}
		for _, space := range []string{"i", "d", "l", "x", "z", "g"} {
			if rows := f.rows(space); len(rows) > 1 {
				t.Errorf("%d rows of kind %q are left", len(rows), space)
			}
		}
	})
}

// The number that a purge of a strict queue answers is that of the items which it removes, whatever is pushed and taken
// while it runs. Any other purge counts what was there when it began, and no push or pop has it run again.
func TestPurgeCountsWhatItRemoves(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		does func(f *fixture, queue string, lease fdbpq.Lease, delayed fdbpq.ID)
		left int64 // of three items that were there
	}{
		{"push", func(f *fixture, queue string, _ fdbpq.Lease, _ fdbpq.ID) {
			f.push(queue, fdbpq.NewItem{}, fdbpq.NewItem{})
		}, 5},
		{"push with a delay", func(f *fixture, queue string, _ fdbpq.Lease, _ fdbpq.ID) {
			f.push(queue, fdbpq.NewItem{Delay: time.Hour})
		}, 4},
		{"pop", func(f *fixture, queue string, _ fdbpq.Lease, _ fdbpq.ID) { f.pop(queue, fdbpq.Min, 1) }, 2},
		{"lease", func(f *fixture, queue string, _ fdbpq.Lease, _ fdbpq.ID) { f.leaseOne(queue, time.Hour) }, 3},
		{"acknowledgement", func(f *fixture, _ string, lease fdbpq.Lease, _ fdbpq.ID) {
			if err := f.ack(lease); err != nil {
				f.Error(err)
			}
		}, 2},
		{"removal", func(f *fixture, queue string, _ fdbpq.Lease, delayed fdbpq.ID) { f.remove(queue, delayed) }, 2},
		{"death", func(f *fixture, _ string, lease fdbpq.Lease, _ fdbpq.ID) {
			if err := f.terminate(lease); err != nil {
				f.Error(err)
			}
		}, 2},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		options := f.clock.options(0)
		options.Strict = true
		for name, f := range map[string]*fixture{"not strict": f, "strict queue": f, "strict store": f.opened(options)} {
			for _, c := range cases {
				queue := name + " " + c.name
				f.configure(queue, fmt.Sprintf(`{"strict":%v}`, name == "strict queue"))
				f.push(queue, fdbpq.NewItem{}, fdbpq.NewItem{})
				delayed := f.push(queue, fdbpq.NewItem{Delay: time.Hour})[0].ID
				lease := *f.leaseOne(queue, time.Hour).Lease
				want, wantRuns := c.left, 2
				if name == "not strict" {
					want, wantRuns = 3, 1
				}
				var purged int64
				runs := 0
				f.update(func(tx kv.Tx) (err error) {
					purged, err = f.Queue(queue).Purge(tx)
					if runs++; runs == 1 {
						f.beside(func() { c.does(f, queue, lease, delayed) })
					}
					return err
				})
				if purged != want || runs != wantRuns {
					t.Errorf("%s: purged %d in %d runs, expected %d in %d", queue, purged, runs, want, wantRuns)
				}
				if left := f.counts(queue).Length(); left != 0 {
					t.Errorf("%s: %d items are left", queue, left)
				}
			}
		}
	})
}

// After a purge in the middle of a transaction, later changes apply to the new
// generation.
func TestPurgeAmongChanges(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two", "three")
		first, second := *f.leaseOne("q", time.Minute).Lease, *f.leaseOne("q", time.Minute).Lease
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			q := w.Queue("q")
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
		if n := f.counts("q"); n.Ready != 1 || n.Leased != 1 {
			t.Errorf("%+v", n)
		}
		if item := f.leaseOne("q", time.Minute); string(item.Payload) != "newer" {
			t.Errorf("took %q", item.Payload)
		}
	})
}

// A transaction that began before a purge, and commits after the rows are cleared,
// leaves no rows in the cleared generation.
func TestPurgeUnderSlowTransactions(t *testing.T) {
	t.Parallel()
	slow := map[string]func(f *fixture, tx kv.Tx, l fdbpq.Lease) error{
		"push": func(f *fixture, tx kv.Tx, _ fdbpq.Lease) error {
			_, err := f.Queue("q").Push(tx, fdbpq.NewItem{TTL: time.Hour})
			return err
		},
		"lease": func(f *fixture, tx kv.Tx, _ fdbpq.Lease) error {
			_, err := f.Queue("q").Lease(tx, fdbpq.Selection{End: fdbpq.Max, Limit: 1}, time.Minute)
			return err
		},
		"nack": func(f *fixture, tx kv.Tx, l fdbpq.Lease) error {
			_, err := f.Queue("q").Nack(tx, l, fdbpq.Nack{Delay: new(time.Minute)})
			return err
		},
		"extend": func(f *fixture, tx kv.Tx, l fdbpq.Lease) error {
			_, err := f.Queue("q").Extend(tx, l, time.Hour)
			return err
		},
		"move": func(f *fixture, tx kv.Tx, l fdbpq.Lease) error {
			_, err := f.Queue("q").Move(tx, l.ID(), 5)
			return err
		},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		for what, do := range slow {
			f.pushed("q", 0, "one", "two")
			lease := *f.leaseOne("q", time.Minute).Lease
			runs := 0
			session := f.Session()
			err := session.Update(t.Context(), func(tx kv.Tx) error {
				if err := do(f, tx, lease); err != nil {
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
				if rows := f.rows(space); len(rows) > 0 {
					t.Errorf("a slow %s leaves %d rows of kind %q", what, len(rows), space)
				}
			}
		}
	})
}
