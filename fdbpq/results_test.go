package fdbpq_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// asking pushes an item that asks for its result, and returns its id.
func (f *fixture) asking(queue string, item fdbpq.NewItem) fdbpq.ID {
	f.Helper()
	if item.ResultTTL == 0 {
		item.ResultTTL = time.Hour
	}
	pushed := f.push(queue, item)[0]
	if pushed.Err != nil {
		f.Fatal(pushed.Err)
	}
	return pushed.ID
}

// result is what became of an item.
func (f *fixture) result(queue string, id fdbpq.ID) (result *fdbpq.Result, err error) {
	f.Helper()
	f.view(func(r kv.Reader) error {
		result, err = f.Queue(queue).Result(r, id)
		return nil
	})
	return result, err
}

func (f *fixture) ackWith(lease fdbpq.Lease, body []byte) (settled fdbpq.Settled) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		settled, err = f.Queue(lease.Queue).AckWith(tx, lease, body)
		return err
	})
	return settled
}

// ended expects the result of an item, whose id elsewhere, if it has one, is that of the first item of the queue there.
func (f *fixture) ended(queue string, id fdbpq.ID, want fdbpq.Result) {
	f.Helper()
	got, err := f.result(queue, id)
	if err != nil || got == nil {
		f.Fatalf("the result of an item that is %s: %v, %v", want.Finish, got, err)
	}
	if want.NextID == "next" {
		var next []fdbpq.Item
		f.view(func(r kv.Reader) error {
			page, err := f.Queue(want.Next).Peek(r, fdbpq.Selection{Limit: 1})
			next = page.Items
			return err
		})
		if len(next) != 1 {
			f.Fatalf("queue %q has no item", want.Next)
		}
		want.NextID = next[0].ID.String()
	}
	same := bytes.Equal(got.Body, want.Body)
	body := got.Body
	got.Body, want.Body = nil, nil
	if want.Finished = f.now(); !same || !equalResults(got, &want) {
		f.Errorf("queue %s: the result is %+v with %q, expected %+v", queue, *got, body, want)
	}
}

func equalResults(a, b *fdbpq.Result) bool {
	return a.Finish == b.Finish && a.Kept == b.Kept && a.Finished == b.Finished && a.Deliveries == b.Deliveries &&
		a.Reason == b.Reason && a.Next == b.Next && a.NextID == b.NextID
}

// However an item ends, its caller hears how: the transaction that ends it keeps that.
func TestEachEndLeavesItsResult(t *testing.T) {
	t.Parallel()
	whole := fdbpq.KeptWhole
	large := bytes.Repeat([]byte("\x00large"), 50_000)
	ends := []struct {
		name, config string
		item         fdbpq.NewItem
		end          func(f *fixture, queue string, id fdbpq.ID)
		want         fdbpq.Result
	}{
		{"ack", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			if settled := f.ackWith(*f.leaseOne(queue, time.Minute).Lease, []byte("\x00\xff")); settled.Result != whole {
				f.Errorf("the settlement says %q", settled.Result)
			}
		}, fdbpq.Result{Finish: fdbpq.FinishDone, Body: []byte("\x00\xff"), Deliveries: 1}},
		{"large", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.ackWith(*f.leaseOne(queue, time.Minute).Lease, large)
		}, fdbpq.Result{Finish: fdbpq.FinishDone, Body: large, Deliveries: 1}},
		{"plain", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			if err := f.ack(*f.leaseOne(queue, time.Minute).Lease); err != nil {
				f.Fatal(err)
			}
		}, fdbpq.Result{Finish: fdbpq.FinishDone, Deliveries: 1}},
		{"late", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			l := *f.leaseOne(queue, time.Second).Lease
			f.pass(time.Minute)
			f.sweep()
			f.ackWith(l, []byte("late"))
		}, fdbpq.Result{Finish: fdbpq.FinishDone, Body: []byte("late"), Deliveries: 1}},
		{"pop", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.pop(queue, fdbpq.Min, 1)
		}, fdbpq.Result{Finish: fdbpq.FinishDone}},
		{"popid", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			for range 2 {
				f.update(func(tx kv.Tx) error {
					_, err := f.Queue(queue).Pop(tx, fdbpq.Selection{Limit: 1, PopID: "p"})
					return err
				})
			}
		}, fdbpq.Result{Finish: fdbpq.FinishDone}},
		{"nack", `{"max_deliveries":2}`, fdbpq.NewItem{Payload: []byte("x"), Key: "k"}, func(f *fixture, queue string, _ fdbpq.ID) {
			for range 2 {
				if _, err := f.nacked(*f.leaseOne(queue, time.Minute).Lease, 0); err != nil {
					f.Fatal(err)
				}
			}
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Deliveries: 2, Reason: fdbpq.DeadMaxDeliveries, Next: "nack-dead", NextID: "next"}},
		{"nails", `{"max_deliveries":1}`, fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			lease := *f.leaseOne(queue, time.Minute).Lease
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Nack(tx, lease, fdbpq.Nack{Reason: "no nails"})
				return err
			})
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Deliveries: 1, Reason: fdbpq.DeadMaxDeliveries, Cause: "no nails", Next: "nails-dead", NextID: "next"}},
		{"crash", `{"max_interruptions":1}`, fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.leaseOne(queue, time.Second)
			f.pass(time.Minute)
			f.sweep()
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Deliveries: 1, Reason: fdbpq.DeadInterruptions, Next: "crash-dead", NextID: "next"}},
		{"term", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			l := *f.leaseOne(queue, time.Minute).Lease
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Terminate(tx, l, "bad address")
				return err
			})
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Deliveries: 1, Reason: "bad address", Next: "term-dead", NextID: "next"}},
		{"ttl", "", fdbpq.NewItem{TTL: time.Second}, func(f *fixture, _ string, _ fdbpq.ID) {
			f.pass(time.Minute)
			f.sweep()
		}, fdbpq.Result{Finish: fdbpq.FinishExpired}},
		{"popttl", "", fdbpq.NewItem{TTL: time.Second}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.pass(time.Minute)
			f.pop(queue, fdbpq.Min, 1)
		}, fdbpq.Result{Finish: fdbpq.FinishExpired}},
		{"deadttl", `{"dead_letter_expired":true}`, fdbpq.NewItem{TTL: time.Second}, func(f *fixture, _ string, _ fdbpq.ID) {
			f.pass(time.Minute)
			f.sweep()
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Reason: fdbpq.DeadExpired, Next: "deadttl-dead", NextID: "next"}},
		{"handover", `{"hand_over":"*"}`, fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.push("shipping", fdbpq.NewItem{HandOver: f.leaseOne(queue, time.Minute).Lease})
		}, fdbpq.Result{Finish: fdbpq.FinishHandedOver, Deliveries: 1, Next: "shipping", NextID: "next"}},
		{"handsame", `{"hand_over":"*"}`, fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.push("again", fdbpq.NewItem{MsgID: "m"})
			f.push("again", fdbpq.NewItem{MsgID: "m", HandOver: f.leaseOne(queue, time.Minute).Lease})
		}, fdbpq.Result{Finish: fdbpq.FinishHandedOver, Deliveries: 1, Next: "again", NextID: "next"}},
		{"handunique", `{"hand_over":"*"}`, fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.push("one", fdbpq.NewItem{Unique: "u"})
			f.push("one", fdbpq.NewItem{Unique: "u", HandOver: f.leaseOne(queue, time.Minute).Lease})
		}, fdbpq.Result{Finish: fdbpq.FinishHandedOver, Deliveries: 1, Next: "one", NextID: "next"}},
		{"link", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			_, of := f.holds(queue, "link:hub", 1)
			f.dropped(queue, of)
		}, fdbpq.Result{Finish: fdbpq.FinishHandedOver, Deliveries: 1, Next: "link:hub"}},
		{"unlinked", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			_, of := f.holds(queue, "link:hub", 1)
			f.released(queue, of, "too large there")
		}, fdbpq.Result{Finish: fdbpq.FinishDead, Reason: "too large there", Next: "unlinked-dead", NextID: "next"}},
		{"remove", "", fdbpq.NewItem{}, func(f *fixture, queue string, id fdbpq.ID) {
			f.remove(queue, id)
		}, fdbpq.Result{Finish: fdbpq.FinishRemoved}},
		{"moved", "", fdbpq.NewItem{}, func(f *fixture, queue string, id fdbpq.ID) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Move(tx, id, 77)
				return err
			})
			f.ackWith(*f.leaseOne(queue, time.Minute).Lease, nil)
		}, fdbpq.Result{Finish: fdbpq.FinishDone, Deliveries: 1}},
		{"bulk", "", fdbpq.NewItem{}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Bulk(tx, fdbpq.Bulk{Verb: fdbpq.BulkRemove, Where: fdbpq.Where{State: fdbpq.StateReady}, Limit: 10})
				return err
			})
		}, fdbpq.Result{Finish: fdbpq.FinishRemoved}},
		{"evict", `{"max_length":1,"overflow":"evict"}`, fdbpq.NewItem{Priority: 5, HasPriority: true}, func(f *fixture, queue string, _ fdbpq.ID) {
			f.pushed(queue, 1, "more urgent")
		}, fdbpq.Result{Finish: fdbpq.FinishEvicted}},
	}
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, end := range ends {
			if end.config != "" {
				f.configure(end.name, end.config)
			}
			id := f.asking(end.name, end.item)
			if got, err := f.result(end.name, id); got != nil || !errors.Is(err, fdbpq.ErrPending) {
				t.Errorf("%s: before its end the result is %v, %v", end.name, got, err)
			}
			end.end(f, end.name, id)
			want := end.want
			want.Kept = whole
			f.ended(end.name, id, want)
			if n := f.counts(end.name); n.Results != 1 || n.ResultBytes != fdbpq.KeptBytes+int64(len(want.Body)+len(want.Cause)) {
				t.Errorf("%s: counted are %d results of %d bytes", end.name, n.Results, n.ResultBytes)
			}
		}
		for _, queue := range []string{"nack-dead", "shipping", "again"} { // what goes on elsewhere has asked for nothing
			id := f.leaseOne(queue, time.Minute).ID
			if _, err := f.result(queue, id); !errors.Is(err, fdbpq.ErrUnkept) || f.get(queue, id).ResultTTL != 0 {
				t.Errorf("queue %s: the item says %v", queue, err)
			}
		}
	})
}

// An item that is evicted by the push that adds it has its result, too.
func TestEvictedItselfLeavesAResult(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_length":1,"overflow":"evict"}`)
		f.pushed("q", 1, "stays")
		pushed := f.push("q", fdbpq.NewItem{Priority: 2, HasPriority: true, ResultTTL: time.Minute})[0]
		if !pushed.Evicted {
			t.Fatalf("the push answers %+v", pushed)
		}
		f.ended("q", pushed.ID, fdbpq.Result{Finish: fdbpq.FinishEvicted, Kept: fdbpq.KeptWhole})
	})
}

// Who asked for nothing gets nothing, and a result is that of one id alone.
func TestOtherIDsHaveNoResult(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		silent := f.pushed("q", 1, "silent")[0]
		if got, err := f.result("q", silent); got != nil || !errors.Is(err, fdbpq.ErrUnkept) {
			t.Errorf("an item that asked for nothing: %v, %v", got, err)
		}
		if settled := f.ackWith(*f.leaseOne("q", time.Minute).Lease, []byte("unasked")); settled.Result != fdbpq.KeptNone {
			t.Errorf("its settlement says %q", settled.Result)
		}
		id := f.asking("q", fdbpq.NewItem{Priority: 2, HasPriority: true})
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Move(tx, id, 3)
			return err
		})
		forged := withPriority(t, id, 3)
		for range 2 { // while it lives, and afterwards
			for _, unknown := range []fdbpq.ID{silent, forged} {
				if got, err := f.result("q", unknown); got != nil || err != nil {
					t.Errorf("an id that no item has, or had with a result: %v, %v", got, err)
				}
			}
			if _, err := f.result("none", id); err != nil {
				t.Errorf("an unknown queue: %v", err)
			}
			f.pop("q", fdbpq.Min, 1)
		}
		if got, err := f.result("q", id); got == nil || err != nil {
			t.Errorf("the id of the moved item: %v, %v", got, err)
		}
	})
}

// withPriority is the id that an item of another priority would have in the place of an item.
func withPriority(t *testing.T, id fdbpq.ID, priority int64) fdbpq.ID {
	t.Helper()
	b, err := base64.RawURLEncoding.DecodeString(id.String())
	if err != nil {
		t.Fatal(err)
	}
	_, suffix, err := tuple.ConsumeInt(b)
	if err != nil {
		t.Fatal(err)
	}
	return parseID(base64.RawURLEncoding.EncodeToString(append(tuple.AppendInt(nil, priority), suffix...)))
}

// A result is kept for as long as was asked, rounded up to one of six times, and no row remains of it.
func TestResultsAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		large := bytes.Repeat([]byte("x"), 240_001)
		for i, ttl := range []struct{ asked, kept time.Duration }{
			{time.Millisecond, time.Minute}, {time.Minute, time.Minute}, {time.Minute + 1, 10 * time.Minute}, {time.Hour, time.Hour},
			{3 * time.Hour, 6 * time.Hour}, {24 * time.Hour, 24 * time.Hour}, {fdbpq.MaxResultTTL, 168 * time.Hour},
		} {
			body := large[:1+40_000*i] // in the row of the result, in one other row, or in several
			id := f.asking("q", fdbpq.NewItem{ResultTTL: ttl.asked})
			if stored := f.get("q", id); stored.ResultTTL != ttl.kept {
				t.Errorf("asked for %s, the item says %s", ttl.asked, stored.ResultTTL)
			}
			f.ackWith(*f.leaseOne("q", time.Minute).Lease, body)
			f.pass(ttl.kept - time.Second)
			f.sweep()
			if got, err := f.result("q", id); err != nil || got == nil || !bytes.Equal(got.Body, body) {
				t.Errorf("asked for %s, a second before the end: %v, %v", ttl.asked, got, err)
			}
			f.pass(time.Second)
			if got, err := f.result("q", id); got != nil || err != nil {
				t.Errorf("asked for %s, at the end: %v, %v", ttl.asked, got, err)
			}
			f.pass(ttl.kept/100 + 20*time.Second)
			f.sweep()
			for _, space := range []string{"re", "rx", "rt", "z"} {
				if rows := f.rows(space); len(rows) > 0 {
					t.Errorf("asked for %s: %d rows remain in %s", ttl.asked, len(rows), space)
				}
			}
			if n := f.counts("q"); n.Results != 0 || n.ResultBytes != 0 {
				t.Errorf("asked for %s: counted are %d results of %d bytes", ttl.asked, n.Results, n.ResultBytes)
			}
		}
		for _, ttl := range []time.Duration{-1, fdbpq.MaxResultTTL + 1} {
			if pushed := f.push("q", fdbpq.NewItem{ResultTTL: ttl})[0]; !errors.Is(pushed.Err, fdbpq.ErrTime) {
				t.Errorf("a result for %s: %v", ttl, pushed.Err)
			}
		}
	})
}

// One timer forgets many results, in transactions of a bounded size, and leaves those whose time is not over.
func TestManyResultsAreForgotten(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.fill("q", 700, fdbpq.NewItem{ResultTTL: time.Minute})
		f.pop("q", fdbpq.Min, 600)
		if timers := len(f.rows("z")); timers != 1 {
			t.Errorf("600 results of a moment have %d timers", timers)
		}
		f.pass(30 * time.Second)
		f.pop("q", fdbpq.Min, 100)
		f.pass(45 * time.Second)
		for most := int64(700); ; {
			swept, err := f.Sweep(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			n := f.counts("q").Results
			if most-n > 256 {
				t.Errorf("a sweep forgot %d results", most-n)
			}
			if most = n; swept.Timers == 0 {
				break
			}
		}
		if n := f.counts("q").Results; n != 100 {
			t.Errorf("%d results are left, expected those of the last 45 s", n)
		}
		f.pass(time.Minute)
		f.sweep()
		if n := f.counts("q"); n.Results != 0 || n.ResultBytes != 0 || len(f.rows("z")) != 0 {
			t.Errorf("counted are %+v, with %d timers", n, len(f.rows("z")))
		}
	})
}

// refusesToKeep pushes an item that asks for its result, and expects that there is no room for it.
func (f *fixture) refusesToKeep(queue, why string) {
	f.Helper()
	if p := f.push(queue, fdbpq.NewItem{ResultTTL: time.Second})[0]; !errors.Is(p.Err, fdbpq.ErrResults) || !strings.Contains(p.Err.Error(), why) {
		f.Errorf("a push that asks: %v, expected %q", p.Err, why)
	}
}

// An item that asks takes the room of its result from its push on, so that results never take more than result_bytes. An item that asks
// for nothing takes none.
func TestAskingTakesRoom(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"result_bytes":1280,"max_deliveries":1,"hand_over":"*"}`) // four results
		ask := fdbpq.NewItem{ResultTTL: time.Hour}
		for i, p := range f.push("q", fdbpq.NewItem{}, ask, ask, ask, ask, fdbpq.NewItem{}, ask) {
			if (p.Err != nil) != (i == 6) || p.Err != nil && !errors.Is(p.Err, fdbpq.ErrResults) {
				t.Errorf("item %d of a batch: %v", i, p.Err)
			}
		}
		taken := "result_bytes is 1280; its results take %d, its items that ask for theirs %d, and one more takes 320"
		f.refusesToKeep("q", fmt.Sprintf(taken, 0, 1280))
		f.pop("q", fdbpq.Min, 2)
		f.refusesToKeep("q", fmt.Sprintf(taken, 320, 960))
		if err := f.nack(*f.leaseOne("q", time.Minute).Lease, 0); err != nil { // it becomes a dead letter, which asks for nothing
			t.Fatal(err)
		}
		f.push("elsewhere", fdbpq.NewItem{HandOver: f.leaseOne("q", time.Minute).Lease})
		if settled := f.ackWith(*f.leaseOne("q", time.Minute).Lease, []byte("x")); settled.Result != fdbpq.KeptDropped {
			t.Errorf("a body without room is %q", settled.Result)
		}
		f.refusesToKeep("q", fmt.Sprintf(taken, 1280, 0))
		f.purge("q")
		f.refusesToKeep("q", fmt.Sprintf(taken, 1280, 0))
		f.configure("q", `{"result_bytes":1920}`)
		f.asking("q", fdbpq.NewItem{})
		id := f.asking("q", fdbpq.NewItem{})
		f.refusesToKeep("q", "")
		f.purge("q")
		f.collectGarbage()
		f.asking("q", fdbpq.NewItem{})
		f.imports("q", fdbpq.Import{ID: id, ResultTTL: time.Hour})
		f.imports("q", fdbpq.Import{ID: id, ResultTTL: time.Hour}) // it is there already
		f.refusesToKeep("q", "")
		f.remove("q", id)
		f.refusesToKeep("q", "")
		if n := f.counts("q"); n.ResultBytes != 5*fdbpq.KeptBytes {
			t.Errorf("counted are %+v", n)
		}
		f.delete("q")
		f.configure("q", `{"result_bytes":320}`)
		f.update(func(tx kv.Tx) error { // what others of the transaction have written counts, too
			return f.In(tx, func(w *fdbpq.Work) error {
				q := w.Queue("q")
				for step, fits := range []bool{true, false, true, false} {
					pushed, err := q.Push(tx, ask)
					if err != nil || (pushed[0].Err == nil) != fits {
						t.Errorf("step %d: %v, %v", step, pushed, err)
					}
					next := q.Pause
					if step == 1 {
						next = func(tx kv.Tx) error { _, err := q.Purge(tx); return err }
					}
					if err := next(tx); err != nil {
						return err
					}
				}
				return nil
			})
		})
	})
}

// The operator's bound of a queue holds for its results, too. One that was configured before stays, and counts as far as that.
func TestMaxQueueBytesOfResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"result_bytes":5000}`)
		for range 4 {
			f.asking("q", fdbpq.NewItem{})
		}
		options := f.clock.options(0)
		options.MaxQueueBytes = 1200
		f = f.opened(options)
		f.refusesToKeep("q", "no queue here may have results of more than 1200 bytes; its results take 0, its items that ask for theirs 1280, and one more takes 320")
		f.view(func(r kv.Reader) error {
			i, err := f.Queue("q").Inspect(r)
			if err == nil && (i.Config.ResultBytes != 5000 || i.MaxResultBytes != 1200) {
				t.Errorf("an inspection says %d of %d", i.MaxResultBytes, i.Config.ResultBytes)
			}
			return err
		})
		f.configure("q", `{"priority":7}`)
		f.configure("q", `{"result_bytes":5000}`)
		for range 2 {
			if settled := f.ackWith(*f.leaseOne("q", time.Minute).Lease, nil); settled.Result != fdbpq.KeptWhole {
				t.Errorf("a settlement without a body says %q", settled.Result)
			}
		}
		if settled := f.ackWith(*f.leaseOne("q", time.Minute).Lease, []byte("x")); settled.Result != fdbpq.KeptDropped {
			t.Errorf("a settlement with a body says %q", settled.Result)
		}
		for _, queue := range []string{"q", "new"} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue(queue).Configure(tx, []byte(`{"result_bytes":1201}`))
				return err
			})
			var config *fdbpq.ConfigError
			want := "configuration: result_bytes is 1201: no queue here may have more than 1200, as the operator of pqd has set"
			if !errors.As(err, &config) || err.Error() != want {
				t.Errorf("a higher bound of %s: %v, expected %q", queue, err, want)
			}
		}
		f.configure("new", `{"result_bytes":0}`) // the lower one of 64 MiB and the operator's
		for range 2 {
			f.asking("new", fdbpq.NewItem{})
		}
		if settled := f.ackWith(*f.leaseOne("new", time.Minute).Lease, make([]byte, 561)); settled.Result != fdbpq.KeptDropped {
			t.Errorf("a body of a byte too many is %q", settled.Result)
		}
		if settled := f.ackWith(*f.leaseOne("new", time.Minute).Lease, make([]byte, 560)); settled.Result != fdbpq.KeptWhole {
			t.Errorf("a body that fits is %q", settled.Result)
		}
		f.refusesToKeep("new", "no queue here may have results of more than 1200 bytes")
		f.configure("new", `{"result_bytes":1200}`)
		f.refusesToKeep("new", "the queue's result_bytes is 1200")
	})
}

// Who settles may bound what is kept: he is asked for the bodies that have room otherwise, and for nothing else.
func TestKeeping(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.Crowded(func(string) bool { return true }) // which says nothing where somebody else decides
		f.configure("q", `{"result_bytes":2000}`)
		for _, tc := range []struct {
			silent bool
			body   int
			asked  int
			admits bool
			want   fdbpq.Kept
		}{
			{true, 5, 0, true, fdbpq.KeptNone}, {false, 0, 0, false, fdbpq.KeptWhole}, {false, 1361, 0, true, fdbpq.KeptDropped},
			{false, 4, 4, false, fdbpq.KeptDropped}, {false, 3, 3, true, fdbpq.KeptWhole},
		} {
			if tc.silent {
				f.pushed("q", 1, "x")
			} else {
				f.asking("q", fdbpq.NewItem{})
			}
			l, asked := *f.leaseOne("q", time.Minute).Lease, 0
			f.update(func(tx kv.Tx) error {
				return f.In(tx, func(w *fdbpq.Work) error {
					w.Keeping(func(bytes int) bool { asked = bytes; return tc.admits })
					settled, err := w.Queue("q").AckWith(tx, l, make([]byte, tc.body))
					if settled.Result != tc.want || asked != tc.asked {
						t.Errorf("%+v: %q, asked for %d bytes", tc, settled.Result, asked)
					}
					return err
				})
			})
		}
		f.asking("other", fdbpq.NewItem{})
		if settled := f.ackWith(*f.leaseOne("other", time.Minute).Lease, []byte("x")); settled.Result != fdbpq.KeptDropped {
			t.Errorf("where nobody else decides: %q", settled.Result)
		}
	})
}

// Beyond result_bytes bodies are dropped, never settlements, and pushes that ask are refused.
func TestRoomForResults(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		first, second := f.asking("q", fdbpq.NewItem{}), f.asking("q", fdbpq.NewItem{})
		third, fourth := f.asking("q", fdbpq.NewItem{}), f.asking("q", fdbpq.NewItem{})
		f.configure("q", `{"result_bytes":1640}`) // 360 for bodies
		items := f.lease("q", fdbpq.Min, 4, time.Minute).Items
		body := []byte(strings.Repeat("b", 300))
		if settled := f.ackWith(*items[0].Lease, body); settled.Result != fdbpq.KeptWhole {
			t.Errorf("the first settlement says %q", settled.Result)
		}
		f.update(func(tx kv.Tx) error { // what the transaction itself adds counts
			return f.In(tx, func(w *fdbpq.Work) error {
				for i, want := range []fdbpq.Kept{fdbpq.KeptDropped, fdbpq.KeptWhole, fdbpq.KeptDropped} {
					body := body[:[]int{61, 60, 1}[i]] // there is room for 60 at first
					settled, err := w.Queue("q").AckWith(tx, *items[1+i].Lease, body)
					if err != nil {
						return err
					}
					if settled.Result != want {
						t.Errorf("settlement %d with %d bytes says %q, expected %q", i, len(body), settled.Result, want)
					}
				}
				return nil
			})
		})
		f.ended("q", first, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Body: body, Deliveries: 1})
		f.ended("q", second, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptDropped, Deliveries: 1})
		f.ended("q", third, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Body: body[:60], Deliveries: 1})
		f.ended("q", fourth, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptDropped, Deliveries: 1})
		if pushed := f.push("q", fdbpq.NewItem{ResultTTL: time.Second})[0]; !errors.Is(pushed.Err, fdbpq.ErrResults) {
			t.Errorf("a push that asks: %v", pushed.Err)
		}
		if pushed := f.push("q", fdbpq.NewItem{})[0]; pushed.Err != nil {
			t.Errorf("a push that asks for nothing: %v", pushed.Err)
		}
		f.configure("q", `{"result_bytes":1959}`) // four results take 1640, and one more takes 320
		if pushed := f.push("q", fdbpq.NewItem{ResultTTL: time.Second})[0]; !errors.Is(pushed.Err, fdbpq.ErrResults) {
			t.Errorf("a push that asks, with a byte too few: %v", pushed.Err)
		}
		f.configure("q", `{"result_bytes":1960}`)
		f.asking("q", fdbpq.NewItem{})
		f.configure("q", `{"result_bytes":1000}`)
		f.pass(2 * time.Hour)
		f.sweep()
		f.asking("q", fdbpq.NewItem{})
	})
}

// A store without room drops bodies, and keeps how items ended.
func TestFullStoreDropsResults(t *testing.T) {
	t.Parallel()
	f := fullStore(t)
	id := f.asking("q", fdbpq.NewItem{})
	other := f.asking("q", fdbpq.NewItem{})
	items := f.lease("q", fdbpq.Min, 2, time.Minute).Items
	f.why = errors.New("the disk is full")
	if settled := f.ackWith(*items[0].Lease, []byte("lost")); settled.Result != fdbpq.KeptDropped {
		t.Errorf("the settlement says %q", settled.Result)
	}
	f.ended("q", id, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptDropped, Deliveries: 1})
	f.why = nil
	f.Crowded(func(string) bool { return true })
	if settled := f.ackWith(*items[1].Lease, []byte("lost")); settled.Result != fdbpq.KeptDropped {
		t.Errorf("where the queue's owner has no more bytes the settlement says %q", settled.Result)
	}
	f.ended("q", other, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptDropped, Deliveries: 1})
}

// Results outlive a purge and end with their queue. What a purge removes leaves none.
func TestResultsOutliveAPurge(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.asking("q", fdbpq.NewItem{})
		f.ackWith(*f.leaseOne("q", time.Minute).Lease, []byte("done"))
		purged := f.asking("q", fdbpq.NewItem{})
		f.purge("q")
		f.ended("q", id, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Body: []byte("done"), Deliveries: 1})
		if got, err := f.result("q", purged); got != nil || err != nil {
			t.Errorf("a purged item: %v, %v", got, err)
		}
		var size fdbpq.Size
		f.view(func(r kv.Reader) (err error) {
			size, err = f.Queue("q").Size(r)
			return err
		})
		if size.Items != 0 || size.Bytes != fdbpq.KeptBytes+4 {
			t.Errorf("the size of the queue is %+v", size)
		}
		f.view(func(r kv.Reader) error {
			i, err := f.Queue("q").Inspect(r)
			if err == nil && (i.Results != 1 || i.ResultBytes != fdbpq.KeptBytes+4) {
				t.Errorf("an inspection says %d results of %d bytes", i.Results, i.ResultBytes)
			}
			return err
		})
		f.delete("q")
		f.collectGarbage()
		f.pushed("q", 1, "another queue")
		if got, err := f.result("q", id); got != nil || err != nil {
			t.Errorf("of the queue before: %v, %v", got, err)
		}
		if n := f.counts("q"); n.Results != 0 || n.ResultBytes != 0 {
			t.Errorf("a new queue has %+v", n)
		}
	})
}

// An item that is imported again has not ended, and asks for its result as it did.
func TestImportClearsTheResult(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.asking("q", fdbpq.NewItem{Priority: 1, HasPriority: true})
		f.ackWith(*f.leaseOne("q", time.Minute).Lease, bytes.Repeat([]byte("x"), 100_000))
		if imported := f.imports("q", fdbpq.Import{ID: id, Priority: 1, ResultTTL: 2 * time.Minute})[0]; imported.Err != nil {
			t.Fatal(imported.Err)
		}
		if _, err := f.result("q", id); !errors.Is(err, fdbpq.ErrPending) {
			t.Errorf("the imported item: %v", err)
		}
		if n, stored := f.counts("q"), f.get("q", id); n.Results != 0 || n.ResultBytes != 0 || stored.ResultTTL != 10*time.Minute {
			t.Errorf("counted are %d results of %d bytes, the item asks for %s", n.Results, n.ResultBytes, stored.ResultTTL)
		}
		f.pop("q", fdbpq.Min, 1)
		f.ended("q", id, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole})
		if imported := f.imports("q", fdbpq.Import{ID: id, Priority: 2, ResultTTL: -1})[0]; !errors.Is(imported.Err, fdbpq.ErrTime) {
			t.Errorf("an import with a negative TTL: %v", imported.Err)
		}
	})
}

// besideDB has something happen while a transaction clears a row of a space.
type besideDB struct {
	kv.DB
	space  string
	beside func()
	ran    int // how often such a transaction ran
}

type besideTx struct {
	kv.Tx
	db *besideDB
}

func (db *besideDB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	return db.DB.Update(ctx, func(tx kv.Tx) error { return fn(&besideTx{tx, db}) })
}

func (tx *besideTx) Clear(key []byte) {
	tx.Tx.Clear(key)
	if !bytes.HasPrefix(key, tuple.AppendString(nil, tx.db.space)) {
		return
	}
	tx.db.ran++
	if beside := tx.db.beside; beside != nil {
		tx.db.beside = nil
		beside()
	}
}

// An import may bring the item back whose result is forgotten at that moment. One of the two clears the result, and counts that.
func TestImportBesideForgetting(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := &besideDB{DB: open(), space: "re"}
		f := openFixture(t, func() kv.DB { return db })
		id := f.asking("q", fdbpq.NewItem{ResultTTL: time.Minute})
		other := f.asking("q", fdbpq.NewItem{ResultTTL: time.Hour})
		f.pop("q", fdbpq.Min, 2)
		f.pass(2 * time.Minute)
		db.beside = func() {
			if imported := f.imports("q", fdbpq.Import{ID: id, ResultTTL: time.Minute})[0]; imported.Err != nil {
				t.Error(imported.Err)
			}
		}
		f.sweep()
		if db.beside != nil || db.ran != 2 { // the sweep that clears it, and the import; the sweep runs again, and finds nothing
			t.Errorf("the result was cleared %d times", db.ran)
		}
		if n := f.counts("q"); n.Results != 1 || n.ResultBytes != fdbpq.KeptBytes {
			t.Errorf("counted are %d results of %d bytes, expected one", n.Results, n.ResultBytes)
		}
		if _, err := f.result("q", id); !errors.Is(err, fdbpq.ErrPending) {
			t.Errorf("the imported item: %v", err)
		}
		if got, err := f.result("q", other); got == nil || err != nil {
			t.Errorf("the other item: %v, %v", got, err)
		}
	})
}

// A repeated settlement is lost, and changes no result. A result that is too large has no effect.
func TestResultIsThatOfOneSettlement(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.asking("q", fdbpq.NewItem{})
		l := *f.leaseOne("q", time.Minute).Lease
		with := func(body []byte) error {
			return f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").AckWith(tx, l, body) })
		}
		if err := with(make([]byte, fdbpq.MaxContent+1)); !errors.Is(err, fdbpq.ErrContent) {
			t.Errorf("a result that is too large: %v", err)
		}
		if _, err := f.result("q", id); !errors.Is(err, fdbpq.ErrPending) {
			t.Errorf("after it: %v", err)
		}
		f.configure("q", `{"result_bytes":68719476736}`)
		if err := with(make([]byte, fdbpq.MaxContent)); err != nil {
			t.Errorf("the largest result: %v", err)
		}
		if err := with([]byte("second")); lost(err) != fdbpq.LostGone {
			t.Errorf("a repetition: %v", err)
		}
		f.ended("q", id, fdbpq.Result{Finish: fdbpq.FinishDone, Kept: fdbpq.KeptWhole, Body: make([]byte, fdbpq.MaxContent), Deliveries: 1})
	})
}

// Who has no answer to a settlement repeats it, and takes "gone" for the answer to the first attempt: so a lease that has not ended an
// item whose result is kept hears another reason.
func TestRepeatedSettlementsOfItemsWithResults(t *testing.T) {
	t.Parallel()
	ack := func(f *fixture, l fdbpq.Lease) error { return f.ack(l) }
	term := func(f *fixture, l fdbpq.Lease) error { return f.terminate(l) }
	next := func(f *fixture, end func(*fixture, fdbpq.Lease) error) {
		f.pass(time.Minute)
		f.sweep()
		if err := end(f, *f.leaseOne("q", time.Minute).Lease); err != nil {
			f.Fatal(err)
		}
	}
	revoked := func(f *fixture) { // now the item's fence is ahead of its deliveries
		if r := f.revoke(f.leaseOne("q", time.Minute).ID, fdbpq.Revocation{}); r.Err != nil {
			f.Fatal(r.Err)
		}
	}
	popped := func(f *fixture, l fdbpq.Lease) {
		if err := f.nack(l, 0); err != nil || len(f.pop("q", fdbpq.Min, 1).Items) != 1 {
			f.Fatalf("the item is not back: %v", err)
		}
	}
	for name, c := range map[string]struct {
		ended     func(f *fixture, l fdbpq.Lease) // how the item ends, unless l does that
		ack, term fdbpq.Lost
	}{
		"cancelled":        {func(f *fixture, l fdbpq.Lease) { f.cancel("q", l.ID(), fdbpq.Cancellation{}) }, fdbpq.LostCancelled, fdbpq.LostCancelled},
		"popped":           {popped, fdbpq.LostTaken, fdbpq.LostTaken},
		"by it":            {func(f *fixture, l fdbpq.Lease) { _ = ack(f, l) }, fdbpq.LostGone, fdbpq.LostTaken},
		"terminated by it": {func(f *fixture, l fdbpq.Lease) { _ = term(f, l) }, fdbpq.LostTaken, fdbpq.LostGone},
		"by a later lease": {func(f *fixture, _ fdbpq.Lease) { next(f, ack) }, fdbpq.LostTaken, fdbpq.LostTaken},
		"terminated later": {func(f *fixture, _ fdbpq.Lease) { next(f, term) }, fdbpq.LostTaken, fdbpq.LostTaken},
		"expired":          {func(f *fixture, _ fdbpq.Lease) { f.pass(time.Hour); f.sweep() }, fdbpq.LostExpired, fdbpq.LostExpired},
		"removed": {func(f *fixture, l fdbpq.Lease) {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Remove(tx, l.ID())
				return err
			})
		}, fdbpq.LostTaken, fdbpq.LostTaken},
	} {
		for before, prepare := range map[string]func(*fixture){"": func(*fixture) {}, ", behind a revoked lease": revoked} {
			t.Run(name+before, func(t *testing.T) {
				eachEngine(t, func(t *testing.T, open func() kv.DB) {
					f := openFixture(t, open)
					f.asking("q", fdbpq.NewItem{TTL: time.Hour})
					prepare(f)
					l := *f.leaseOne("q", time.Minute).Lease
					c.ended(f, l)
					for _, when := range []string{"afterwards", "after a purge"} {
						if err := ack(f, l); lost(err) != c.ack {
							t.Errorf("an acknowledgement %s: %v, expected %q", when, err, c.ack)
						}
						if err := term(f, l); lost(err) != c.term {
							t.Errorf("a termination %s: %v, expected %q", when, err, c.term)
						}
						f.purge("q") // results stay
					}
				})
			})
		}
	}
}

// Transactions that end items, and keep what became of them, do not conflict because of that.
func TestResultsDoNotConflict(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.asking("q", fdbpq.NewItem{})
		f.asking("q", fdbpq.NewItem{})
		items := f.lease("q", fdbpq.Min, 2, time.Minute).Items
		runs := 0
		f.update(func(tx kv.Tx) error {
			runs++
			_, err := f.Queue("q").AckWith(tx, *items[0].Lease, []byte("one"))
			if runs == 1 {
				f.ackWith(*items[1].Lease, []byte("other"))
			}
			return err
		})
		if n := f.counts("q"); runs != 1 || n.Results != 2 || n.ResultBytes != 2*fdbpq.KeptBytes+8 {
			t.Errorf("the transaction ran %d times, counted are %+v", runs, n)
		}
	})
}
