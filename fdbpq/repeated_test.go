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

// popsID pops one item with an id, repeated or not.
func (f *fixture) popsID(queue, id string, repeated bool, lease time.Duration) (fdbpq.Popped, error) {
	f.Helper()
	session := f.Session()
	defer session.Release()
	var popped fdbpq.Popped
	err := session.Update(f.Context(), func(tx kv.Tx) (err error) {
		sel := fdbpq.Selection{Limit: 1, PopID: id, Repeated: repeated}
		if lease > 0 {
			popped, err = f.Queue(queue).Lease(tx, sel, lease)
		} else {
			popped, err = f.Queue(queue).Pop(tx, sel)
		}
		return err
	})
	return popped, err
}

// nothing fails the test unless a pop with an id found nothing.
func (f *fixture) nothing(queue, id string, repeated, final bool, reason fdbpq.Reason) {
	f.Helper()
	popped, err := f.popsID(queue, id, repeated, 0)
	if err != nil || len(popped.Items) > 0 || popped.Final != final || popped.Reason != reason {
		f.Errorf("pop %q, repeated %t: %q, final %t, reason %q, %v; expected nothing, final %t, reason %q",
			id, repeated, payloads(popped.Items), popped.Final, popped.Reason, err, final, reason)
	}
}

// one fails the test unless a pop with an id found this item.
func (f *fixture) one(queue, id string, repeated bool, want string) {
	f.Helper()
	popped, err := f.popsID(queue, id, repeated, 0)
	if err != nil || fmt.Sprint(payloads(popped.Items)) != fmt.Sprintf("[%s]", want) {
		f.Errorf("pop %q, repeated %t: %q, %v; expected %q", id, repeated, payloads(popped.Items), err, want)
	}
}

// What a repeated pop finds is final: an earlier attempt that comes later pops nothing.
func TestRepeatedPopIsFinal(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		// Of a first pop it is not.
		f.configure("q", `{}`)
		f.nothing("q", "first", false, false, fdbpq.ReasonEmpty)
		f.nothing("q", "x", true, true, fdbpq.ReasonEmpty)
		f.pushed("q", 0, "one", "two")
		f.nothing("q", "x", false, true, fdbpq.ReasonEmpty)
		f.nothing("q", "x", true, true, fdbpq.ReasonEmpty)
		f.one("q", "first", false, "one")
		// A lease is a pop like others, and a default lease may have changed.
		if popped, err := f.popsID("q", "x", false, time.Minute); err != nil || len(popped.Items) > 0 || !popped.Final {
			t.Errorf("with a lease: %q, %v", payloads(popped.Items), err)
		}
		if err := f.fails(func(tx kv.Tx) error {
			_, err := f.Queue("q").Pop(tx, fdbpq.Selection{Limit: 1, PopID: "x", End: fdbpq.Max})
			return err
		}); !errors.Is(err, fdbpq.ErrPopIDReused) {
			t.Errorf("with another end: %v", err)
		}
		// A paused queue.
		f.update(func(tx kv.Tx) error { return f.Queue("q").Pause(tx) })
		f.nothing("q", "later", false, false, fdbpq.ReasonPaused)
		f.nothing("q", "paused", true, true, fdbpq.ReasonPaused)
		f.nothing("q", "x", true, true, fdbpq.ReasonPaused)
		f.update(func(tx kv.Tx) error { return f.Queue("q").Resume(tx) })
		f.nothing("q", "paused", false, true, fdbpq.ReasonEmpty)
		f.one("q", "later", true, "two")
		if n := f.counts("q"); n.Remembered != 4 {
			t.Errorf("%d ids are remembered, expected 4", n.Remembered)
		}
	})
}

// An attempt that has found an item, and is about to commit when another one with its id
// becomes final, pops nothing.
func TestAttemptBehindFinalPop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one")
		slow := f.another(0)
		held, behind, holds := make(chan struct{}), make(chan struct{}), true
		slow.hook = func(at fault.Point) {
			if at == fault.BeforeCommit && holds {
				holds = false
				close(held)
				<-behind
			}
		}
		answered := make(chan error, 1)
		go func() {
			popped, err := slow.popsID("q", "x", false, 0)
			if err == nil && (len(popped.Items) > 0 || !popped.Final) {
				err = fmt.Errorf("popped %q, final %t", payloads(popped.Items), popped.Final)
			}
			answered <- err
		}()
		<-held
		f.update(func(tx kv.Tx) error {
			popped, err := f.Queue("q").PopNothing(tx, fdbpq.Selection{Limit: 1, PopID: "x"}, 0)
			if len(popped.Items) > 0 || !popped.Final {
				t.Errorf("%+v", popped)
			}
			return err
		})
		close(behind)
		if err := <-answered; err != nil {
			t.Errorf("the first attempt: %v", err)
		}
		f.one("q", "other", false, "one")
	})
}

// A queue that does not exist remembers, and leaves nothing behind when it forgets.
func TestRepeatedPopOfMissingQueue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		rows := len(everything(t, f.base))
		f.nothing("q", "first", false, false, fdbpq.ReasonUnknown)
		if n := len(everything(t, f.base)); n > rows+1 { // and a session's row
			t.Errorf("a first pop leaves %d rows more", n-rows)
		}
		for _, id := range []string{"x", "y", "x"} {
			f.nothing("q", id, true, true, fdbpq.ReasonUnknown)
		}
		f.nothing("other", "x", true, true, fdbpq.ReasonUnknown)
		f.view(func(r kv.Reader) error {
			names, err := f.Queues(r, "", 10)
			if len(names) > 0 {
				t.Errorf("there are queues %q", names)
			}
			return err
		})
		// What makes the queue inherits it.
		f.pushed("q", 0, "one")
		f.nothing("q", "x", false, true, fdbpq.ReasonEmpty)
		if n := f.counts("q"); n.Remembered != 2 {
			t.Errorf("%d ids are remembered, expected 2", n.Remembered)
		}
		f.one("q", "z", false, "one")
		f.delete("q")
		f.collectGarbage()
		together(time.Hour, f)
		f.sweep()
		for _, space := range []string{"p", "r", "y", "c", "z", "u", "q"} {
			for _, row := range f.rows(space) {
				t.Errorf("row %q = %q is left", row.Key, row.Value)
			}
		}
	})
}

// A repeated pop pops nothing of a queue that is made again after it was deleted: neither
// one that found nothing, nor one that got its item from the former queue.
func TestRepeatedPopOutlivesQueue(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, collect := range []bool{false, true} {
			q := fmt.Sprint("q-", collect)
			f.nothing(q, "empty", true, true, fdbpq.ReasonUnknown)
			f.pushed(q, 0, "one", "two", "three")
			f.one(q, "got", false, "one")
			f.one(q, "got", true, "one")
			f.one(q, "once", false, "two") // it was sent once, so nothing else is under way
			if _, err := f.popsID(q, "leased", true, time.Minute); err != nil {
				t.Fatal(err)
			}
			f.push(q, fdbpq.NewItem{MsgID: "message"})
			f.delete(q)
			if collect {
				f.collectGarbage()
			}
			f.pushed(q, 0, "new")
			for _, id := range []string{"empty", "got", "leased"} {
				f.nothing(q, id, false, true, fdbpq.ReasonEmpty)
			}
			if n := f.counts(q); n.Remembered != 3 {
				t.Errorf("%d ids are remembered, expected 3", n.Remembered)
			}
			if again := f.push(q, fdbpq.NewItem{MsgID: "message", Delay: time.Hour})[0]; again.Duplicate {
				t.Error("a message of the deleted queue is a duplicate")
			}
			f.one(q, "once", false, "new")
			f.delete(q)
		}
	})
}

// Each repetition lets the window begin again. A pop that found nothing is remembered
// for longer than any pop waits.
func TestRepetitionsRenewTheWindow(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_window":"10s"}`)
		f.pushed("q", 0, "one", "two")
		f.one("q", "x", false, "one")
		for range 4 {
			f.pass(9 * time.Second)
			f.sweep()
			f.one("q", "x", true, "one")
		}
		f.pass(9 * time.Second)
		f.sweep()
		f.one("q", "x", false, "one") // which is no repetition
		f.pass(time.Second)
		f.sweep()
		f.one("q", "x", false, "two")
		f.nothing("q", "y", true, true, fdbpq.ReasonEmpty)
		f.pushed("q", 0, "three")
		f.pass(3*time.Minute - 1)
		f.sweep()
		f.nothing("q", "y", false, true, fdbpq.ReasonEmpty)
		f.pass(1)
		f.one("q", "y", false, "three")
		f.configure("q", `{"dedup_window":"1h"}`)
		f.nothing("q", "z", true, true, fdbpq.ReasonEmpty)
		f.pushed("q", 0, "four")
		f.pass(time.Hour - 1)
		f.sweep()
		f.nothing("q", "z", false, true, fdbpq.ReasonEmpty)
	})
}

// The memory of a queue is bounded. Beyond it a repeated pop that finds nothing is
// refused, and not final.
func TestRepeatedPopBeyondDedupLimit(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"dedup_limit":1}`)
		f.nothing("q", "x", true, true, fdbpq.ReasonEmpty)
		f.nothing("q", "x", true, true, fdbpq.ReasonEmpty)
		for _, paused := range []bool{false, true} {
			if paused {
				f.update(func(tx kv.Tx) error { return f.Queue("q").Pause(tx) })
			}
			if _, err := f.popsID("q", "y", true, 0); !errors.Is(err, fdbpq.ErrRemembered) {
				t.Errorf("paused %t: %v", paused, err)
			}
		}
		f.update(func(tx kv.Tx) error { return f.Queue("q").Resume(tx) })
		f.configure("q", `{"dedup_limit":2}`)
		f.pushed("q", 0, "one")
		f.one("q", "y", true, "one")
	})
}

// PopNothing returns what the pop has got before, and otherwise ends it.
func TestPopNothing(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 0, "one", "two")
		f.one("q", "got", false, "one")
		end := func(queue, id string) (popped fdbpq.Popped) {
			t.Helper()
			f.update(func(tx kv.Tx) (err error) {
				popped, err = f.Queue(queue).PopNothing(tx, fdbpq.Selection{Limit: 1, PopID: id}, 0)
				return err
			})
			return popped
		}
		if got := payloads(end("q", "got").Items); len(got) != 1 || got[0] != "one" {
			t.Errorf("a pop that has got an item: %q", got)
		}
		for _, queue := range []string{"q", "missing"} {
			if popped := end(queue, "x"); len(popped.Items) > 0 || !popped.Final {
				t.Errorf("%s: %+v", queue, popped)
			}
		}
		f.nothing("q", "x", false, true, fdbpq.ReasonEmpty)
		f.nothing("missing", "x", true, true, fdbpq.ReasonUnknown)
		f.one("q", "other", false, "two")
	})
}

// A wait ends when its pop can get nothing any more.
func TestWaitOfFinalPop(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.nothing("q", "x", true, true, fdbpq.ReasonUnknown)
		f.configure("q", `{}`)
		popped, err := f.Wait(t.Context(), "q", fdbpq.Selection{Limit: 1, PopID: "x"}, 0)
		if err != nil || !popped.Final {
			t.Errorf("%+v, %v", popped, err)
		}
		if _, err := f.Wait(t.Context(), "q", fdbpq.Selection{Limit: 1, PopID: "y", Repeated: true}, 0); err == nil {
			t.Error("a wait that is to be final")
		}
	})
}

// A queue that does not exist forgets its ids one by one.
func TestMissingQueueForgetsOneByOne(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.nothing("q", "first", true, true, fdbpq.ReasonUnknown)
		together(time.Minute, f)
		f.nothing("q", "second", true, true, fdbpq.ReasonUnknown)
		together(2*time.Minute+30*time.Second, f)
		f.sweep()
		if rows := f.rows("p"); len(rows) != 1 {
			t.Errorf("%d ids are left, expected the second one", len(rows))
		}
		f.configure("q", `{}`)
		if n := f.counts("q"); n.Remembered != 1 {
			t.Errorf("%d ids are remembered, expected 1", n.Remembered)
		}
	})
}

// A repeated pop that has only removed items past their TTL is not final: it goes on.
func TestRepeatedPopGoesOnBehindExpired(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushBehindExpired("q", "last")
		popped, err := f.popsID("q", "x", true, 0)
		if err != nil || len(popped.Items) > 0 || !popped.More || popped.Final {
			t.Errorf("at first: %q, more %t, final %t, %v", payloads(popped.Items), popped.More, popped.Final, err)
		}
		f.one("q", "x", true, "last")
	})
}
