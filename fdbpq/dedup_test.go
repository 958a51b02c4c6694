package fdbpq_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The same id in two pushes, or two pops, at the same time: one of them is the
// first.
func TestSameIDAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		f.pushed("q", 0, "one", "two")
		runs := 0
		var own, theirs fdbpq.Pushed
		f.update(func(tx kv.Tx) error {
			pushed, err := f.Queue("q").Push(tx, fdbpq.NewItem{MsgID: "id"})
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
		pop := func(p *fixture, tx kv.Tx, end fdbpq.End) (fdbpq.Popped, error) {
			return p.Queue("q").Lease(tx, fdbpq.Selection{End: end, Limit: 1, PopID: "id"}, time.Minute)
		}
		runs = 0
		err := f.fails(func(tx kv.Tx) error {
			if _, err := pop(f, tx, fdbpq.Min); err != nil {
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
		if !errors.Is(err, fdbpq.ErrPopIDReused) || !strings.Contains(err.Error(), "expected the end, band and lease of the first one") {
			t.Errorf("another pop with the same id: %v", err)
		}
	})
}

// A message id counts for its window, whatever became of the item.
func TestDeduplicationAfterTheEnd(t *testing.T) {
	t.Parallel()
	ends := map[string]func(f *fixture, id fdbpq.ID){
		"it waits":     func(*fixture, fdbpq.ID) {},
		"it was taken": func(f *fixture, _ fdbpq.ID) { f.pop("q", fdbpq.Min, 1) },
		"it was acknowledged": func(f *fixture, _ fdbpq.ID) {
			if err := f.ack(*f.leaseOne("q", time.Second).Lease); err != nil {
				f.Error(err)
			}
		},
		"it died": func(f *fixture, _ fdbpq.ID) {
			f.leaseOne("q", time.Second)
			f.pass(time.Second)
			f.sweep()
		},
		"it expired": func(f *fixture, _ fdbpq.ID) {
			f.pass(30 * time.Second)
			f.sweep()
		},
		"it was removed": func(f *fixture, id fdbpq.ID) {
			f.remove("q", id)
		},
		"all was purged": func(f *fixture, _ fdbpq.ID) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Purge(tx)
				return err
			})
		},
	}
	for what, end := range ends {
		t.Run(what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.configure("q", `{"max_deliveries":1,"dedup_window":"1m"}`)
				item := fdbpq.NewItem{MsgID: "same", TTL: 30 * time.Second, Priority: 3, HasPriority: true}
				first := f.push("q", item)[0]
				end(f, first.ID)
				left := f.counts("q").Length()
				again := f.push("q", item)[0]
				if !again.Duplicate || again.ID != first.ID || again.Seq != first.Seq || again.Priority != 3 {
					t.Errorf("when %s, a second push answers %+v, the first %+v", what, again, first)
				}
				if n := f.counts("q").Length(); n != left {
					t.Errorf("when %s, a second push makes %d items of %d", what, n, left)
				}
				if other := f.push("another", item)[0]; other.Duplicate {
					t.Error("the id counts in another queue")
				}
				f.pass(time.Minute)
				if later := f.push("q", item)[0]; later.Duplicate || later.Err != nil {
					t.Errorf("after the window: %+v", later)
				}
			})
		})
	}
}

// Past dedup_limit ids, a push or a pop with a further one is refused; known
// ones are answered, and so are those without.
func TestDedupLimit(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_limit":3,"dedup_window":"1m"}`)
		f.pushed("q", 0, "one", "two")
		pushed := f.push("q", fdbpq.NewItem{MsgID: "a"}, fdbpq.NewItem{MsgID: "b"}, fdbpq.NewItem{MsgID: "a"})
		if pushed[0].Err != nil || pushed[1].Err != nil || !pushed[2].Duplicate {
			t.Errorf("two ids of three: %+v", pushed)
		}
		pop := func(id string) error {
			session := f.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: id})
				return err
			})
		}
		if err := pop("p"); err != nil {
			t.Errorf("the third id: %v", err)
		}
		for _, p := range f.push("q", fdbpq.NewItem{MsgID: "c"}) {
			if !errors.Is(p.Err, fdbpq.ErrRemembered) {
				t.Errorf("a fourth id, of a push: %v", p.Err)
			}
		}
		if err := pop("p2"); !errors.Is(err, fdbpq.ErrRemembered) {
			t.Errorf("a fourth id, of a pop: %v", err)
		}
		if err := pop("p"); err != nil {
			t.Errorf("a known id at the limit: %v", err)
		}
		if p := f.push("q", fdbpq.NewItem{MsgID: "b"}, fdbpq.NewItem{}); !p[0].Duplicate || p[1].Err != nil {
			t.Errorf("a known id at the limit, and none: %+v", p)
		}
		together(time.Minute, f)
		if err := pop("p"); err != nil { // forgotten, but not swept yet: its place is free
			t.Errorf("an id again after the window: %v", err)
		}
		f.sweep()
		if p := f.push("q", fdbpq.NewItem{MsgID: "c"})[0]; p.Err != nil || p.Duplicate {
			t.Errorf("an id when others are forgotten: %+v", p)
		}
	})
}

// An id of a deleted queue that is pushed again is remembered for its own window, not until
// the end of the first one.
func TestDeletedQueueLeavesTimersOfIDs(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for range 2 {
			f.configure("q", `{"dedup_window":"1m"}`)
			f.push("q", fdbpq.NewItem{MsgID: "id"})
			f.delete("q")
			f.pass(30 * time.Second)
		}
		f.configure("q", `{"dedup_window":"1m"}`)
		f.push("q", fdbpq.NewItem{MsgID: "id"})
		f.pass(30 * time.Second)
		f.sweep()
		if again := f.push("q", fdbpq.NewItem{MsgID: "id"})[0]; !again.Duplicate {
			t.Error("the timer of an earlier queue has forgotten the id")
		}
	})
}

// A process forgets its ids in time, and not only at its next heartbeat: they count against
// dedup_limit.
func TestMaintainForgetsIDsInTime(t *testing.T) {
	t.Parallel()
	const window = 50 * time.Millisecond // less than from one heartbeat to the next
	for what, use := range map[string]func(kv.Tx, fdbpq.Queue) error{
		"push": func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Push(tx, fdbpq.NewItem{MsgID: "id"})
			return err
		},
		"pop": func(tx kv.Tx, q fdbpq.Queue) error {
			_, err := q.Pop(tx, fdbpq.Selection{Limit: 1, PopID: "id"})
			return err
		},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				base, err := placeLocal(t)()
				if err != nil {
					t.Fatal(err)
				}
				defer base.Close()
				s, err := fdbpq.Open(t.Context(), base, fdbpq.Options{})
				if err != nil {
					t.Fatal(err)
				}
				update(t, s, func(tx kv.Tx) error {
					_, err := s.Queue("q").Configure(tx, []byte(`{"dedup_window":"50ms"}`))
					return err
				})
				push(t, s, "q", "one")
				ctx, stop := context.WithCancel(t.Context())
				var running sync.WaitGroup
				running.Go(func() { s.Maintain(ctx, fdbpq.Maintenance{}) })
				<-time.After(10 * time.Millisecond)
				update(t, s, func(tx kv.Tx) error { return use(tx, s.Queue("q")) })
				<-time.After(window + 10*time.Millisecond)
				synctest.Wait()
				var n fdbpq.Counts
				if err := s.View(t.Context(), func(r kv.Reader) (err error) {
					n, err = s.Queue("q").Counts(r)
					return err
				}); err != nil || n.Remembered != 0 {
					t.Errorf("10ms after the window %d ids are remembered, %v", n.Remembered, err)
				}
				stop()
				running.Wait()
			})
		})
	}
}

// A deleted queue remembers no ids: a push repeated after the deletion adds an item.
func TestDeleteForgetsIDs(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, again := range []bool{false, true} {
			if p := f.push("q", fdbpq.NewItem{MsgID: "id"}, fdbpq.NewItem{}); p[0].Duplicate {
				t.Errorf("deleted before %v: the push is a duplicate of %s", again, p[0].ID)
			}
			for _, lease := range []time.Duration{0, time.Hour} {
				f.update(func(tx kv.Tx) error {
					sel := fdbpq.Selection{Limit: 1, PopID: lease.String()}
					q := f.Queue("q")
					pop := q.Pop
					if lease > 0 {
						pop = func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) { return q.Lease(tx, sel, lease) }
					}
					popped, err := pop(tx, sel)
					if err == nil && len(popped.Items) != 1 {
						t.Errorf("deleted before %v: a pop with lease %v returns %d items", again, lease, len(popped.Items))
					}
					return err
				})
			}
			if n := f.counts("q").Remembered; n != 3 {
				t.Errorf("%d ids are remembered, expected 3", n)
			}
			f.delete("q")
			f.pass(time.Minute)
		}
		f.pass(2 * time.Minute) // the timers of what was forgotten find nothing
		if events := f.sweep(); len(events) > 0 {
			t.Errorf("events: %v", events)
		}
	})
}
