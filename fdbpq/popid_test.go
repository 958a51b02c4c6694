package fdbpq_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
)

// An item whose pop was answered twice goes back only when both answers are reported
// as lost, in whichever order.
func TestReturnOfRepeatedPop(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		pop := func(id string) fdbpq.Lease {
			t.Helper()
			var popped fdbpq.Popped
			f.update(func(tx kv.Tx) (err error) {
				popped, err = f.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1, PopID: id}, time.Hour)
				return err
			})
			return *popped.Items[0].Lease
		}
		giveBack := func(l fdbpq.Lease) error {
			session := f.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := f.Queue("q").Return(tx, l)
				return err
			})
		}
		ready := func(what string, want int64) {
			t.Helper()
			if n := f.counts("q"); n.Ready != want || n.Leased != 1-want {
				t.Errorf("%s: %d ready and %d leased, expected %d ready", what, n.Ready, n.Leased, want)
			}
		}
		f.pushed("q", 0, "one")
		first := pop("a")
		second := pop("a")
		if err := giveBack(first); err != nil {
			t.Error(err)
		}
		ready("one of two answers came back", 0)
		if third := pop("a"); third.Fence != second.Fence {
			t.Errorf("the repeated pop has fence %d, expected %d", third.Fence, second.Fence)
		}
		for range 2 {
			if err := giveBack(second); err != nil {
				t.Error(err)
			}
		}
		ready("all answers came back", 1)

		// The next lease knows nothing of it.
		next := pop("b")
		if got := f.get("q", next.ID()).Deliveries; got != 1 {
			t.Errorf("%d deliveries, expected 1: what came back does not count", got)
		}
		if err := giveBack(next); err != nil {
			t.Error(err)
		}
		ready("a single answer came back", 1)
		pop("c")
		if err := f.nack(pop("c"), 0); err != nil {
			t.Error(err)
		}
		if err := giveBack(pop("d")); err != nil {
			t.Error(err)
		}
		ready("an answer came back after a lease that had been answered twice", 1)
	})
}

// A repeated pop does not return a lease that has run out, swept or not.
func TestRepeatedPopAfterItsLease(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two")
		sel := fdbpq.Selection{Limit: 2, PopID: "id"}
		pop := func(tx kv.Tx) error {
			popped, err := f.Queue("q").Lease(tx, sel, 10*time.Second)
			if err == nil && len(popped.Items) != 2 {
				t.Errorf("got %d items, expected 2", len(popped.Items))
			}
			return err
		}
		f.update(pop)
		f.pass(10*time.Second - 1)
		f.update(pop)
		f.pass(1)
		for _, swept := range []bool{false, true} {
			if why := lost(f.fails(pop)); why != fdbpq.LostGone {
				t.Errorf("repeated when the leases were over, swept %v: %q, expected that nothing is left", swept, why)
			}
			f.sweep()
		}
	})
}

// A lost reply, a bridge that died between commit and reply, a retry somewhere
// else: the same id gets the same items.
func TestLostReply(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two", "three")
		for _, d := range []time.Duration{0, time.Minute} {
			pop := func(p *fixture) (fdbpq.Popped, error) {
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
			dead := f.another(0)
			dead.hook = func(at fault.Point) {
				if at == fault.AfterCommit {
					dead.db.Crash()
				}
			}
			if _, err := pop(dead); !errors.Is(err, kv.ErrUnknown) {
				t.Fatalf("the pop of a process that dies: %v", err)
			}
			first, err := pop(f)
			if err != nil {
				t.Fatal(err)
			}
			again, err := pop(f.another(0))
			if err != nil {
				t.Fatal(err)
			}
			if len(first.Items) != 1 || len(again.Items) != 1 || first.Items[0].ID != again.Items[0].ID {
				t.Errorf("the pop answered %q, and then %q", payloads(first.Items), payloads(again.Items))
			}
			if ready := f.counts("q").Ready; again.Ready != ready {
				t.Errorf("the repeated pop says that %d items are ready, expected %d", again.Ready, ready)
			}
			if n := f.counts("q"); d > 0 && (n.Ready != 1 || n.Leased != 1) || d == 0 && n.Ready != 2 {
				t.Errorf("after one pop there are %+v", n)
			}
			if d > 0 {
				if err := f.ack(*first.Items[0].Lease); err != nil {
					t.Error(err)
				}
				var lost *fdbpq.LostError
				if _, err := pop(f); !errors.As(err, &lost) || lost.Reason != fdbpq.LostGone {
					t.Errorf("the pop once more after its item is settled: %v", err)
				}
			}
		}
	})
}

// A repeated pop does not get the lease that another consumer has by now.
func TestLostReplyAndLostLease(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two")
		pop := func(limit int) (popped fdbpq.Popped, err error) {
			session := f.Session()
			defer session.Release()
			err = session.Update(t.Context(), func(tx kv.Tx) (err error) {
				popped, err = f.Queue("q").Lease(tx, fdbpq.Selection{Limit: limit, PopID: "pop"}, time.Minute)
				return err
			})
			return popped, err
		}
		first, err := pop(2)
		if err != nil || len(first.Items) != 2 {
			t.Fatalf("popped %q, %v", payloads(first.Items), err)
		}
		if err := f.nack(*first.Items[0].Lease, 0); err != nil {
			t.Fatal(err)
		}
		other := f.another(0)
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
