package fdbpq_test

import (
	"errors"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/tuple"
)

// lost is how a lease was lost, "" when the error says nothing of that.
func lost(err error) fdbpq.Lost {
	var e *fdbpq.LostError
	if errors.As(err, &e) {
		return e.Reason
	}
	return ""
}

func (b *bench) imports(queue string, items ...fdbpq.Import) []fdbpq.Imported {
	b.Helper()
	var imported []fdbpq.Imported
	b.update(func(tx kv.Tx) (err error) {
		imported, err = b.Queue(queue).Import(tx, items...)
		return err
	})
	return imported
}

func (b *bench) delete(queue string) {
	b.Helper()
	b.update(func(tx kv.Tx) error {
		_, err := b.Queue(queue).Delete(tx)
		return err
	})
}

func (b *bench) collect() {
	b.Helper()
	for more := true; more; {
		var err error
		if more, err = b.CollectGarbage(b.Context()); err != nil {
			b.Fatal(err)
		}
		problems, err := b.Check(b.Context())
		if err != nil || len(problems) > 0 {
			b.Fatalf("check: %v %q", err, problems)
		}
	}
}

// An item that is imported again from an earlier export has no fence that it had
// before, so nobody who leased it before settles the new lease, or gets past a
// guard that has seen the new fence.
func TestImportAgain(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		id := b.pushed("q", 0, "one")[0]
		export := b.everything("q")[0]
		far := export
		far.Fence = 1 << 55
		var leases []fdbpq.Lease
		for _, item := range []fdbpq.Import{export, export, far, far, export} {
			old := b.leaseOne("q", time.Hour)
			for _, l := range leases {
				if l.Fence >= old.Lease.Fence {
					t.Fatalf("fence %d after fence %d", old.Lease.Fence, l.Fence)
				}
				if why := lost(b.ack(l)); why != fdbpq.LostTaken {
					t.Errorf("acknowledging with fence %d what has fence %d: %q, expected that it was taken", l.Fence, old.Lease.Fence, why)
				}
			}
			leases = append(leases, *old.Lease)
			b.update(func(tx kv.Tx) error {
				_, err := b.Queue("q").Remove(tx, id)
				return err
			})
			if one := b.imports("q", item)[0]; one.Err != nil || one.Found != nil {
				t.Fatalf("import: %+v", one)
			}
		}
		if got := b.get("q", id).Fence; got != export.Fence {
			t.Errorf("before its next lease the item has fence %d, expected the one that was imported, %d", got, export.Fence)
		}
	})
}

// An item whose take was answered twice goes back when neither answer arrived,
// and not before, whichever did not.
func TestReturnOfRepeatedPop(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		take := func(id string) fdbpq.Lease {
			t.Helper()
			var popped fdbpq.Popped
			b.update(func(tx kv.Tx) (err error) {
				popped, err = b.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1, PopID: id}, time.Hour)
				return err
			})
			return *popped.Items[0].Lease
		}
		giveBack := func(l fdbpq.Lease) error {
			session := b.Session()
			defer session.Release()
			return session.Update(t.Context(), func(tx kv.Tx) error {
				_, err := b.Queue("q").Return(tx, l)
				return err
			})
		}
		ready := func(what string, want int64) {
			t.Helper()
			if n := b.counts("q"); n.Ready != want || n.Leased != 1-want {
				t.Errorf("%s: %d ready and %d leased, expected %d ready", what, n.Ready, n.Leased, want)
			}
		}
		b.pushed("q", 0, "one")
		first := take("a")
		second := take("a")
		if err := giveBack(first); err != nil {
			t.Error(err)
		}
		ready("one of two answers came back", 0)
		if third := take("a"); third.Fence != second.Fence {
			t.Errorf("the repeated take has fence %d, expected %d", third.Fence, second.Fence)
		}
		for range 2 {
			if err := giveBack(second); err != nil {
				t.Error(err)
			}
		}
		ready("all answers came back", 1)

		// The next lease knows nothing of it.
		next := take("b")
		if got := b.get("q", next.ID()).Deliveries; got != 1 {
			t.Errorf("%d deliveries, expected 1: what came back does not count", got)
		}
		if err := giveBack(next); err != nil {
			t.Error(err)
		}
		ready("a single answer came back", 1)
		take("c")
		if err := b.nack(take("c"), 0); err != nil {
			t.Error(err)
		}
		if err := giveBack(take("d")); err != nil {
			t.Error(err)
		}
		ready("an answer came back after a lease that had been answered twice", 1)
	})
}

// A repeated take does not answer a lease that has run out, swept or not.
func TestRepeatedPopAfterItsLease(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		b.pushed("q", 0, "one", "two")
		sel := fdbpq.Selection{Limit: 2, PopID: "id"}
		pop := func(tx kv.Tx) error {
			popped, err := b.Queue("q").Lease(tx, sel, 10*time.Second)
			if err == nil && len(popped.Items) != 2 {
				t.Errorf("got %d items, expected 2", len(popped.Items))
			}
			return err
		}
		b.update(pop)
		b.pass(10*time.Second - 1)
		b.update(pop)
		b.pass(1)
		for _, swept := range []bool{false, true} {
			if why := lost(b.fails(pop)); why != fdbpq.LostGone {
				t.Errorf("repeated when the leases were over, swept %v: %q, expected that nothing is left", swept, why)
			}
			b.sweep()
		}
	})
}

// A deleted queue remembers no ids: a push that is repeated after it is one.
func TestDeleteForgetsIDs(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		for _, again := range []bool{false, true} {
			if p := b.push("q", fdbpq.NewItem{MsgID: "id"}, fdbpq.NewItem{}); p[0].Duplicate {
				t.Errorf("deleted before %v: the push is a duplicate of %s", again, p[0].ID)
			}
			for _, lease := range []time.Duration{0, time.Hour} {
				b.update(func(tx kv.Tx) error {
					sel := fdbpq.Selection{Limit: 1, PopID: lease.String()}
					q := b.Queue("q")
					take := q.Pop
					if lease > 0 {
						take = func(tx kv.Tx, sel fdbpq.Selection) (fdbpq.Popped, error) { return q.Lease(tx, sel, lease) }
					}
					popped, err := take(tx, sel)
					if err == nil && len(popped.Items) != 1 {
						t.Errorf("deleted before %v: a pop with lease %v takes %d items", again, lease, len(popped.Items))
					}
					return err
				})
			}
			if n := b.counts("q").Remembered; n != 3 {
				t.Errorf("%d ids are remembered, expected 3", n)
			}
			b.delete("q")
			b.pass(time.Minute)
		}
		b.pass(2 * time.Minute) // the timers of what was forgotten find nothing
		if events := b.sweep(); len(events) > 0 {
			t.Errorf("events: %v", events)
		}
	})
}

// A deleted queue leaves no row behind, and one of the same name begins anew: a
// lease on an item of the old one is worth nothing, and who waits is woken.
func TestDeletedQueueLeavesNothing(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		var old fdbpq.Lease
		var id fdbpq.ID
		var arrivals []string
		for round := range 3 {
			name := "mortal"
			if round == 0 {
				id = b.pushed(name, 0, "one")[0]
			} else if one := b.imports(name, fdbpq.Import{ID: id})[0]; one.Err != nil {
				t.Fatal(one.Err)
			}
			item := b.leaseOne(name, time.Hour)
			if round > 0 {
				if why := lost(b.ack(old)); why != fdbpq.LostGone {
					t.Errorf("round %d: acknowledging what was leased before the queue was deleted: %q", round, why)
				}
			}
			old = *item.Lease
			for _, row := range b.rows("a") {
				arrivals = append(arrivals, string(row.Value))
			}
			b.push(name, fdbpq.NewItem{MsgID: "id", TTL: time.Hour}, fdbpq.NewItem{Delay: time.Hour})
			b.configure(name, `{"ttl":"1h"}`)
			b.update(func(tx kv.Tx) error {
				_, err := b.Queue(name).Purge(tx)
				return err
			})
			b.pushed(name, 1, "two")
			b.delete(name)
			b.collect()
			b.pass(2 * time.Minute)
			b.sweep()
			prefix := tuple.AppendString(nil, name)
			for _, row := range everything(t, b.base) {
				if len(row.Key) > 3 && string(row.Key[3:min(len(row.Key), 3+len(prefix))]) == string(prefix) {
					t.Errorf("round %d: there is a row %q = %q", round, row.Key, row.Value)
				}
			}
			b.pass(time.Hour)
			b.sweep()
		}
		if len(arrivals) != 3 || arrivals[0] == arrivals[1] || arrivals[1] == arrivals[2] {
			t.Errorf("arrivals are %q: whoever watched an earlier queue would not be woken", arrivals)
		}
	})
}

// What is refused makes no queue.
func TestRefusedMakesNoQueue(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		b := openBench(t, open)
		id := b.pushed("q", 0, "one")[0]
		late := time.Date(2300, 1, 1, 0, 0, 0, 0, time.UTC)
		for what, item := range map[string]fdbpq.Import{
			"pushed in 2300":  {ID: id, Pushed: late},
			"pushed in 1500":  {ID: id, Pushed: late.AddDate(-800, 0, 0)},
			"expires in 2300": {ID: id, Expires: late},
			"ready in 2300":   {ID: id, NotBefore: late},
			"a fence below 0": {ID: id, Fence: -1},
			"too many leases": {ID: id, Deliveries: 1<<62 + 1},
			"too large":       {ID: id, Payload: make([]byte, fdbpq.MaxContent+1)},
			"no place":        {},
		} {
			if one := b.imports("new", item)[0]; one.Err == nil {
				t.Errorf("import, %s: it was taken in", what)
			}
		}
		if p := b.push("new", fdbpq.NewItem{Delay: fdbpq.MaxDelay + 1}, fdbpq.NewItem{MsgID: "id", TTL: fdbpq.MaxDelay + 1}); p[0].Err == nil || p[1].Err == nil {
			t.Errorf("pushes: %+v, expected two errors", p)
		}
		b.fails(func(tx kv.Tx) error {
			_, err := b.Queue("new").Configure(tx, []byte(`{"ttl":5}`))
			return err
		})
		b.view(func(r kv.Reader) error {
			names, err := b.Queues(r, "", 10)
			if len(names) != 1 {
				t.Errorf("there are the queues %q, expected q alone", names)
			}
			return err
		})
		for _, row := range everything(t, b.base) {
			if string(row.Key[3:]) == string(tuple.AppendString(nil, "new")) {
				t.Errorf("there is a row %q = %q", row.Key, row.Value)
			}
		}
	})
}
