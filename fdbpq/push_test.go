package fdbpq_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/fault"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A refused push creates no queue.
func TestRefusedMakesNoQueue(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
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
			if one := f.imports("new", item)[0]; one.Err == nil {
				t.Errorf("import, %s: it was taken in", what)
			}
		}
		if p := f.push("new", fdbpq.NewItem{Delay: fdbpq.MaxDelay + 1}, fdbpq.NewItem{MsgID: "id", TTL: fdbpq.MaxDelay + 1}); p[0].Err == nil || p[1].Err == nil {
			t.Errorf("pushes: %+v, expected two errors", p)
		}
		f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("new").Configure(tx, []byte(`{"ttl":5}`))
			return err
		})
		f.view(func(r kv.Reader) error {
			names, err := f.Queues(r, "", 10)
			if len(names) != 1 {
				t.Errorf("there are the queues %q, expected q alone", names)
			}
			return err
		})
		for _, row := range everything(t, f.base) {
			if string(row.Key[3:]) == string(tuple.AppendString(nil, "new")) {
				t.Errorf("there is a row %q = %q", row.Key, row.Value)
			}
		}
	})
}

// Limits count what earlier pushes of a Work have added, and begin anew when an operation of it empties the queue.
func TestLimitsInOneWork(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":3}`)
		f.pushed("q", 0, "before")
		f.together(func(tx kv.Tx, w *fdbpq.Work) error {
			q := w.Queue("q")
			push := func(room int) error {
				for n := range room + 2 {
					pushed, err := q.Push(tx, fdbpq.NewItem{Payload: []byte{byte(n)}})
					if err != nil {
						return err
					}
					if full := errors.Is(pushed[0].Err, fdbpq.ErrFull); full != (n >= room) {
						t.Errorf("push %d into room for %d: %v", n+1, room, pushed[0].Err)
					}
				}
				return nil
			}
			if err := push(2); err != nil {
				return err
			}
			if _, err := q.Purge(tx); err != nil {
				return err
			}
			if err := push(3); err != nil {
				return err
			}
			if _, err := q.Configure(tx, []byte(`{"max_length":4}`)); err != nil {
				return err
			}
			if err := push(1); err != nil {
				return err
			}
			if _, err := q.Delete(tx); err != nil {
				return err
			}
			if _, err := q.Configure(tx, []byte(`{"max_length":2}`)); err != nil {
				return err
			}
			return push(2)
		})
		if n := f.counts("q"); n.Ready != 2 {
			t.Errorf("counts are %+v, expected 2 items", n)
		}
	})
}

// pushUnique pushes an item with a unique value, and checks that it adds an item, or not.
func (f *fixture) pushUnique(item fdbpq.NewItem, adds bool) fdbpq.Pushed {
	f.Helper()
	item.Unique = "value"
	p := f.push("q", item)[0]
	if p.Err != nil || p.Duplicate == adds {
		f.Errorf("%+v, expected to add an item: %v", p, adds)
	}
	return p
}

// A claim to a unique value ends with its item, in every way that an item can end.
func TestUniqueEndsWithItsItem(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		end  func(f *fixture, first fdbpq.Pushed)
	}{
		{"pop", func(f *fixture, _ fdbpq.Pushed) { f.pop("q", fdbpq.Min, 1) }},
		{"ack", func(f *fixture, _ fdbpq.Pushed) {
			if err := f.ack(*f.leaseOne("q", time.Minute).Lease); err != nil {
				f.Error(err)
			}
		}},
		{"terminate", func(f *fixture, _ fdbpq.Pushed) {
			if err := f.terminate(*f.leaseOne("q", time.Minute).Lease); err != nil {
				f.Error(err)
			}
		}},
		{"hand over", func(f *fixture, _ fdbpq.Pushed) {
			f.configure("q", `{"hand_over":"*"}`)
			f.handOver("other", *f.leaseOne("q", time.Minute).Lease, fdbpq.NewItem{})
		}},
		{"remove", func(f *fixture, first fdbpq.Pushed) {
			f.remove("q", first.ID)
		}},
		{"TTL", func(f *fixture, _ fdbpq.Pushed) { f.pass(2 * time.Hour); f.sweep() }},
		{"TTL before the sweep", func(f *fixture, _ fdbpq.Pushed) { f.pass(2 * time.Hour) }},
		{"TTL after a lease that ran out", func(f *fixture, _ fdbpq.Pushed) { f.leaseOne("q", time.Minute); f.pass(2 * time.Hour) }},
		{"TTL of a dead letter", func(f *fixture, _ fdbpq.Pushed) {
			f.configure("q", `{"dead_letter_expired":true}`)
			f.pass(2 * time.Hour)
		}},
		{"the last delivery", func(f *fixture, _ fdbpq.Pushed) {
			f.configure("q", `{"max_deliveries":1}`)
			if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil {
				f.Error(err)
			}
		}},
		{"evict", func(f *fixture, _ fdbpq.Pushed) {
			f.configure("q", `{"max_length":1,"overflow":"evict"}`)
			f.push("q", fdbpq.NewItem{Priority: -1, HasPriority: true})
			f.configure("q", `{"max_length":0}`)
		}},
		{"purge", func(f *fixture, _ fdbpq.Pushed) { f.purge("q") }},
		{"delete", func(f *fixture, _ fdbpq.Pushed) { f.delete("q") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				f := openFixture(t, open)
				f.TB = t
				first := f.pushUnique(fdbpq.NewItem{TTL: time.Hour}, true)
				again := f.pushUnique(fdbpq.NewItem{}, false)
				if again.ID != first.ID || again.Seq != first.Seq {
					t.Errorf("the second push: %+v, expected the item of the first, %+v", again, first)
				}
				c.end(f, first)
				if second := f.pushUnique(fdbpq.NewItem{}, true); second.ID == first.ID {
					t.Errorf("the push after the end: %+v", second)
				}
				f.pushUnique(fdbpq.NewItem{}, false)
				f.collectGarbage()
				if rows := f.rows("j"); len(rows) != 1 {
					t.Errorf("there are %d rows of unique values", len(rows))
				}
			})
		})
	}
}

// An item has its unique value in every state, and after moves and returns. Other queues
// have values of their own.
func TestUniqueInEveryState(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushUnique(fdbpq.NewItem{Delay: time.Minute, TTL: 10 * time.Hour}, true)
		f.pushUnique(fdbpq.NewItem{}, false)
		f.pass(time.Hour)
		f.sweep()
		first := f.pushUnique(fdbpq.NewItem{}, false)
		lease := *f.leaseOne("q", time.Minute).Lease
		f.pushUnique(fdbpq.NewItem{}, false)
		if err := f.nack(lease, 0); err != nil {
			t.Fatal(err)
		}
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Move(tx, first.ID, 7)
			return err
		})
		if p := f.pushUnique(fdbpq.NewItem{}, false); p.Priority != 7 {
			t.Errorf("%+v, expected the priority that the item was moved to", p)
		}
		if got := f.get("q", first.ID); got.Unique != "value" || got.UniqueUntilLeased {
			t.Errorf("%+v", got)
		}
		f.leaseOne("q", 12*time.Hour)
		f.pass(11 * time.Hour)
		f.pushUnique(fdbpq.NewItem{}, false) // the TTL is over, the lease is not
		if p := f.push("other", fdbpq.NewItem{Unique: "value"})[0]; p.Err != nil || p.Duplicate {
			t.Errorf("in another queue: %+v", p)
		}
		for i, p := range f.push("q", fdbpq.NewItem{Unique: "a"}, fdbpq.NewItem{Unique: "b"}, fdbpq.NewItem{Unique: "a"}) {
			if p.Err != nil || p.Duplicate != (i == 2) {
				t.Errorf("push %d of a batch: %+v", i, p)
			}
		}
	})
}

// Until leased: the first lease ends the claim, and what becomes of the item later does
// not touch the next one's.
func TestUniqueUntilLeased(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushUnique(fdbpq.NewItem{UniqueUntilLeased: true}, true)
		f.pushUnique(fdbpq.NewItem{}, false)
		first := f.leaseOne("q", time.Minute)
		f.pushUnique(fdbpq.NewItem{}, true)
		if err := f.nack(*first.Lease, 0); err != nil {
			t.Fatal(err)
		}
		if got := f.get("q", first.ID); got.Unique != "" || got.UniqueUntilLeased {
			t.Errorf("after the lease: %+v", got)
		}
		if err := f.ack(*f.leaseOne("q", time.Minute).Lease); err != nil {
			t.Fatal(err)
		}
		f.pushUnique(fdbpq.NewItem{}, false)
	})
}

// Replace changes the content and nothing else; a leased item is not replaced.
func TestUniqueReplace(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		large := []byte(strings.Repeat("large", 40_000))
		first := f.pushUnique(fdbpq.NewItem{Payload: large, Priority: 5, HasPriority: true, TTL: time.Hour}, true)
		before := *f.get("q", first.ID)
		news := fdbpq.NewItem{Payload: []byte("new"), Headers: []byte("header"), Priority: 1, HasPriority: true, Delay: time.Hour, OnConflict: fdbpq.ConflictReplace}
		f.pushUnique(news, false)
		after := *f.get("q", first.ID)
		if string(after.Payload) != "new" || string(after.Headers) != "header" || after.Size != 9 {
			t.Errorf("%+v", after)
		}
		if after.Priority != 5 || after.Seq != before.Seq || after.Expires != before.Expires ||
			after.State != fdbpq.StateReady || !after.Pushed.Equal(before.Pushed) {
			t.Errorf("%+v, expected the rest to be as before, %+v", after, before)
		}
		news.Payload = large
		f.pushUnique(news, false)
		news.Payload = make([]byte, fdbpq.MaxContent)
		news.Unique = "value"
		if p := f.push("q", news)[0]; !errors.Is(p.Err, fdbpq.ErrContent) {
			t.Errorf("content that is too large: %+v", p)
		}
		if got := f.get("q", first.ID); string(got.Payload) != string(large) {
			t.Errorf("after a refusal the item has %d bytes", len(got.Payload))
		}
		news.Payload = []byte("small")
		f.pushUnique(news, false)
		if rows := f.rows("x"); len(rows) > 0 {
			t.Errorf("%d rows of the large content are left", len(rows))
		}
		f.leaseOne("q", time.Minute)
		news.Payload = nil
		if p := f.push("q", news)[0]; !errors.Is(p.Err, fdbpq.ErrLeased) {
			t.Errorf("a leased item: %+v", p)
		}
	})
}

// Raise never makes an item less urgent. A leased item moves when it returns.
func TestUniqueRaise(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		raise := func(priority, want int64) fdbpq.Pushed {
			t.Helper()
			p := f.pushUnique(fdbpq.NewItem{Payload: []byte("new"), Priority: priority, HasPriority: true, OnConflict: fdbpq.ConflictRaise}, false)
			if p.Priority != want {
				t.Errorf("%+v, expected priority %d", p, want)
			}
			return p
		}
		first := f.pushUnique(fdbpq.NewItem{Payload: []byte("old"), Priority: 5, HasPriority: true}, true)
		raise(6, 5)
		raise(5, 5)
		raise(4, 4)
		if got := f.get("q", first.ID); got.Priority != 4 || string(got.Payload) != "old" {
			t.Errorf("%+v", got)
		}
		lease := *f.leaseOne("q", time.Minute).Lease
		raise(2, 2)
		raise(3, 2)
		if err := f.nack(lease, 0); err != nil {
			t.Fatal(err)
		}
		if got := f.get("q", first.ID); got.Priority != 2 {
			t.Errorf("after its return: %+v", got)
		}
	})
}

// A message id is looked at first, and remembered also where a push added nothing.
func TestUniqueWithMsgID(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_limit":2,"max_length":1}`)
		first := f.pushUnique(fdbpq.NewItem{MsgID: "1"}, true)
		f.pushUnique(fdbpq.NewItem{MsgID: "2"}, false)
		if p := f.push("q", fdbpq.NewItem{Unique: "value", MsgID: "3"})[0]; !errors.Is(p.Err, fdbpq.ErrRemembered) {
			t.Errorf("an id too many: %+v", p)
		}
		f.pop("q", fdbpq.Min, 1)
		if p := f.pushUnique(fdbpq.NewItem{MsgID: "2"}, false); p.ID != first.ID {
			t.Errorf("a known id after the item: %+v, expected %+v", p, first)
		}
	})
}

// A hand-over within a queue leaves its unique value to the new item.
func TestUniqueHandOver(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"hand_over":"q"}`)
		f.pushUnique(fdbpq.NewItem{TTL: time.Hour}, true)
		first := f.leaseOne("q", time.Minute)
		f.pass(2 * time.Hour) // both the lease and the TTL are over
		f.pushUnique(fdbpq.NewItem{HandOver: first.Lease}, true)
		second := f.leaseOne("q", time.Minute)
		if second.ID == first.ID {
			t.Errorf("%+v", second)
		}
		f.push("q", fdbpq.NewItem{Unique: "another"})
		p := f.push("q", fdbpq.NewItem{Unique: "another", HandOver: second.Lease})[0]
		if p.Err != nil || !p.Duplicate || f.counts("q").Length() != 1 {
			t.Errorf("%+v, %+v: expected the lease to end with a push that adds nothing", p, f.counts("q"))
		}
	})
}

// What is said about a unique value has to make sense.
func TestUniqueIsChecked(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, item := range []fdbpq.NewItem{
			{Unique: strings.Repeat("x", fdbpq.MaxUnique+1)}, {Unique: "x", OnConflict: "drop"},
			{OnConflict: fdbpq.ConflictKeep}, {UniqueUntilLeased: true},
		} {
			if p := f.push("q", item)[0]; !errors.Is(p.Err, fdbpq.ErrUnique) {
				t.Errorf("%+v: %+v", item, p)
			}
		}
		f.push("q", fdbpq.NewItem{Unique: strings.Repeat("\x00", fdbpq.MaxUnique)})
	})
}

// An import takes its unique value along, and is refused where a living item has it.
func TestUniqueImport(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushUnique(fdbpq.NewItem{}, true).ID
		f.pop("q", fdbpq.Min, 1)
		item := fdbpq.Import{ID: id, Unique: "value", UniqueUntilLeased: true}
		f.pushUnique(fdbpq.NewItem{TTL: time.Hour}, true)
		if one := f.imports("q", item)[0]; !errors.Is(one.Err, fdbpq.ErrOccupied) {
			t.Errorf("%+v", one)
		}
		f.pass(2 * time.Hour)
		if one := f.imports("q", item)[0]; one.Err != nil || len(one.Events) != 1 || one.Events[0].Type != fdbpq.EventExpired {
			t.Errorf("after the TTL of the other one: %+v", one)
		}
		if got := f.get("q", id); got.Unique != "value" || !got.UniqueUntilLeased {
			t.Errorf("%+v", got)
		}
		f.pushUnique(fdbpq.NewItem{}, false)
		f.leaseOne("q", time.Minute)
		f.pushUnique(fdbpq.NewItem{}, true)
	})
}

// A damaged row, whose item has another value, or none, claims nothing.
func TestUniqueOfAnotherItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushUnique(fdbpq.NewItem{}, true)
		row := f.rows("j")[0]
		f.pop("q", fdbpq.Min, 1)
		f.pushed("q", 0, "without a value")
		f.update(func(tx kv.Tx) error {
			tx.Set(row.Key, f.rows("i")[0].Key[len(row.Key)-len("value")-2:])
			return nil
		})
		f.pushUnique(fdbpq.NewItem{}, true)
		f.pushUnique(fdbpq.NewItem{}, false)
	})
}

// Of two pushes at the same time one is the first.
func TestUniqueAtTheSameTime(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "makes the queue")
		other := f.another(0)
		var second fdbpq.Pushed
		once := false
		f.hook = func(at fault.Point) {
			if at == fault.BeforeCommit && !once {
				once = true
				second = other.pushUnique(fdbpq.NewItem{}, true)
			}
		}
		first := f.pushUnique(fdbpq.NewItem{}, false)
		if first.ID != second.ID {
			t.Errorf("%+v, and at the same time %+v", first, second)
		}
	})
}
