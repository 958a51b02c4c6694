package fdbpq_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

func eachHold(t *testing.T, test func(f *fixture)) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) { test(openFixture(t, open)) })
}

// holds holds items for somebody.
func (f *fixture) holds(queue, holder string, limit int) (popped fdbpq.Popped, of fdbpq.Holding) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		popped, of, err = f.Queue(queue).Hold(tx, fdbpq.Selection{Limit: limit}, holder)
		return err
	})
	return popped, of
}

func (f *fixture) released(queue string, of fdbpq.Holding, reason string) (events []fdbpq.Event) {
	f.Helper()
	f.update(func(tx kv.Tx) (err error) {
		events, err = f.Queue(queue).Release(tx, of, reason)
		return err
	})
	return events
}

func (f *fixture) dropped(queue string, of fdbpq.Holding) {
	f.Helper()
	f.update(func(tx kv.Tx) error { return f.Queue(queue).Drop(tx, of) })
}

// held are the payloads that can be read of a holding.
func (f *fixture) held(queue string, of fdbpq.Holding, sel fdbpq.Selection) (found []string) {
	f.Helper()
	f.update(func(tx kv.Tx) error {
		popped, err := f.Queue(queue).Held(tx, of, sel)
		found = payloads(popped.Items)
		return err
	})
	return found
}

// some is a part of a holding.
func some(of fdbpq.Holding, items ...int) fdbpq.Holding {
	part := fdbpq.Holding{Holder: of.Holder, Generation: of.Generation}
	for _, i := range items {
		part.Items = append(part.Items, of.Items[i])
	}
	return part
}

// Held items are those that a pop would have got, without a lease. Their holder reads them, ends some of them and returns the
// others to their places, as if nobody had popped them.
func TestHold(t *testing.T) {
	eachHold(t, func(f *fixture) {
		f.pushed("q", 5, "a", "b", "c", "d")
		first := f.pushed("q", 1, "first")[0]
		popped, of := f.holds("q", "mover", 4)
		if got := payloads(popped.Items); !slices.Equal(got, []string{"first", "a", "b", "c"}) || popped.Leased != 0 || popped.Ready != 1 || len(of.Items) != 4 {
			f.Fatalf("held %q: %+v", got, popped)
		}
		for _, item := range popped.Items {
			if item.Lease != nil || item.Deliveries != 1 {
				f.Errorf("held: %+v", item)
			}
		}
		if item := f.get("q", first); !item.Held || item.Holder != "mover" || item.Due != 0 || item.Since != 0 {
			f.Errorf("stored: %+v", item)
		}
		if rows := f.rows("z"); len(rows) != 0 {
			f.Errorf("a hold has timers: %q", rows)
		}
		f.pass(400 * 24 * time.Hour)
		f.sweep()
		for says, read := range map[string]fdbpq.Selection{"first a b c": {Limit: 9}, "first a": {Limit: 2}, "first": {Limit: 9, MaxBytes: 1}} {
			if got := strings.Join(f.held("q", of, read), " "); got != says {
				f.Errorf("read %q, expected %q", got, says)
			}
		}
		f.dropped("q", some(of, 0, 2))
		if events := f.released("q", some(of, 3, 1), ""); len(events) != 0 {
			f.Errorf("events: %+v", events)
		}
		if item := f.leaseOne("q", time.Minute); string(item.Payload) != "a" || item.Deliveries != 1 || item.Failures != 0 {
			f.Errorf("back: %+v", item)
		}
		f.expectPayloads("q", "c", "d")
	})
}

// Nobody ends a hold but its holder, who ends it once.
func TestHoldIsThatOfItsHolder(t *testing.T) {
	eachHold(t, func(f *fixture) {
		f.pushed("q", 5, "a", "b", "c")
		popped, of := f.holds("q", "mover", 1)
		q, id := f.Queue("q"), popped.Items[0].ID
		for name, change := range map[string]func(kv.Tx) error{
			"remove": func(tx kv.Tx) error { _, err := q.Remove(tx, id); return err },
			"revoke": func(tx kv.Tx) error { _, err := q.Revoke(tx, id, fdbpq.Revocation{}); return err },
			"move":   func(tx kv.Tx) error { _, err := q.Move(tx, id, 7); return err },
		} {
			if err := f.fails(change); !errors.Is(err, fdbpq.ErrHeld) {
				f.Errorf("%s: %v", name, err)
			}
		}
		leased := f.leaseOne("q", time.Hour)
		_, others := f.holds("q", "other", 1)
		gone := some(of, 0)
		wrong := map[string]fdbpq.Holding{
			"items of another holder": {Holder: "mover", Generation: of.Generation, Items: others.Items},
			"no place":                {Holder: "mover", Generation: of.Generation, Items: [][]byte{{1}}},
			"ended":                   gone,
		}
		f.dropped("q", of)
		for name, of := range wrong {
			for verb, change := range map[string]func(kv.Tx) error{
				"drop":    func(tx kv.Tx) error { return q.Drop(tx, of) },
				"release": func(tx kv.Tx) error { _, err := q.Release(tx, of, ""); return err },
				"read":    func(tx kv.Tx) error { _, err := q.Held(tx, of, fdbpq.Selection{Limit: 1}); return err },
			} {
				f.fails(func(tx kv.Tx) error {
					err := change(tx)
					if err == nil {
						f.Errorf("%s, %s: no error", name, verb)
					}
					return errors.Join(err, errors.ErrUnsupported)
				})
			}
		}
		for name, holder := range map[string]string{"nobody": "", "a control character": "a\n"} {
			err := f.fails(func(tx kv.Tx) error {
				_, _, err := q.Hold(tx, fdbpq.Selection{Limit: 1}, holder)
				return err
			})
			if !errors.Is(err, fdbpq.ErrHolder) {
				f.Errorf("%s: %v", name, err)
			}
		}
		if err := f.ack(*leased.Lease); err != nil {
			f.Error(err)
		}
		if n := f.counts("q"); n.Leased != 1 || n.Length() != 1 {
			f.Errorf("left: %+v", n)
		}
	})
}

// What the other side can have in no form becomes a dead letter, and what can be none returns. An item that has outlived its TTL
// expires on its return.
func TestReleaseWithAReason(t *testing.T) {
	eachHold(t, func(f *fixture) {
		f.pushed("q", 5, "a")
		id := f.pushed("elsewhere", 9, "alive")[0]
		f.imports("q", fdbpq.Import{ID: id, Priority: 9, Payload: []byte("dead"), Dead: &fdbpq.DeadLetter{Reason: "too old", Origin: "elsewhere"}})
		f.push("q", fdbpq.NewItem{Payload: []byte("late"), Priority: 10, HasPriority: true, TTL: time.Minute})
		_, of := f.holds("q", "mover", 3)
		f.pass(time.Hour)
		events := f.released("q", some(of, 0, 1), "no room there")
		if len(events) != 1 || events[0].Type != fdbpq.EventDead || events[0].Reason != "no room there" || events[0].Deliveries != 0 {
			f.Errorf("events: %+v", events)
		}
		events = f.released("q", some(of, 2), "")
		if len(events) != 1 || events[0].Type != fdbpq.EventExpired {
			f.Errorf("events: %+v", events)
		}
		f.expectPayloads("q-dead", "a")
		f.expectPayloads("q", "dead")
	})
}

// A purge ends held items. What its holder then ends or reads is nothing, even where others are held since.
func TestHoldOfAPurgedQueue(t *testing.T) {
	eachHold(t, func(f *fixture) {
		f.pushed("q", 5, "a", "b")
		_, of := f.holds("q", "mover", 2)
		before := f.generation("q")
		f.purge("q")
		if now := f.generation("q"); before != of.Generation || now == before {
			f.Errorf("generation %d of items held in %d, and %d after a purge", before, of.Generation, now)
		}
		f.pushed("q", 5, "c")
		if got := f.held("q", of, fdbpq.Selection{Limit: 9}); len(got) != 0 {
			f.Errorf("read %q", got)
		}
		f.dropped("q", of)
		f.released("q", of, "")
		_, now := f.holds("q", "mover", 1)
		f.dropped("q", of)
		f.released("q", now, "")
		f.expectPayloads("q", "c")
		f.delete("q")
		f.dropped("q", of)
		if popped, none := f.holds("q", "mover", 1); popped.Reason != fdbpq.ReasonUnknown || len(none.Items) != 0 {
			f.Errorf("of no queue: %+v", popped)
		}
		f.fails(func(tx kv.Tx) error {
			if _, err := f.Queue("q").Generation(tx); !errors.Is(err, fdbpq.ErrNoQueue) {
				f.Errorf("generation of no queue: %v", err)
			}
			return errors.ErrUnsupported
		})
	})
}

func (f *fixture) generation(queue string) (generation int64) {
	f.Helper()
	f.view(func(r kv.Reader) (err error) {
		generation, err = f.Queue(queue).Generation(r)
		return err
	})
	return generation
}

// A queue that is paused, or has a rate, gives as little to a holder as to a pop.
func TestHoldKeepsTheQueuesRules(t *testing.T) {
	eachHold(t, func(f *fixture) {
		f.pushed("q", 5, "a", "b")
		f.update(func(tx kv.Tx) error { return f.Queue("q").Pause(tx) })
		if popped, of := f.holds("q", "mover", 1); popped.Reason != fdbpq.ReasonPaused || len(of.Items) != 0 {
			f.Errorf("a paused queue: %+v", popped)
		}
		f.update(func(tx kv.Tx) error { return f.Queue("q").Resume(tx) })
		f.configure("q", `{"rate":"1/1h","key_order":true}`)
		if popped, of := f.holds("q", "mover", 2); len(popped.Items) != 1 || len(of.Items) != 1 {
			f.Errorf("a rate of one: %+v", popped)
		}
		err := f.fails(func(tx kv.Tx) error {
			_, _, err := f.Queue("q").Hold(tx, fdbpq.Selection{Limit: 1, End: fdbpq.Max}, "mover")
			return err
		})
		if !errors.Is(err, fdbpq.ErrOnlyMin) {
			f.Errorf("from the other end: %v", err)
		}
	})
}

// Whoever ends a hold and takes the next one in a Work gets what fits into the transaction beside that.
func TestHoldsOfAWorkFitTogether(t *testing.T) {
	eachHold(t, func(f *fixture) {
		const n = fdbpq.MaxBatch
		for range 2 * n / 500 {
			f.fill("q", 500, fdbpq.NewItem{Key: strings.Repeat("k", fdbpq.MaxKey)})
		}
		_, of := f.holds("q", "mover", n)
		var next fdbpq.Holding
		f.update(func(tx kv.Tx) error {
			return f.Queue("q").In(tx, func(q fdbpq.Queue) (err error) {
				if err = q.Drop(tx, of); err == nil {
					_, next, err = q.Hold(tx, fdbpq.Selection{Limit: n}, "mover")
				}
				return err
			})
		})
		if len(of.Items) != n || len(next.Items) == 0 || len(next.Items) >= n {
			f.Errorf("held %d, and beside their end %d", len(of.Items), len(next.Items))
		}
		if left := f.counts("q"); left.Leased != int64(len(next.Items)) || left.Length() != n {
			f.Errorf("counts %+v", left)
		}
		f.released("q", next, "")
		if _, all := f.holds("q", "mover", n); len(all.Items) != n {
			f.Errorf("held %d alone", len(all.Items))
		}
	})
}

// In takes the Work of its handle, or makes one that writes at its end.
func TestOperationsOfAQueueIn(t *testing.T) {
	eachHold(t, func(f *fixture) {
		pushes := func(tx kv.Tx, q fdbpq.Queue) error {
			return q.In(tx, func(q fdbpq.Queue) error {
				for range 2 {
					if _, err := q.Push(tx, fdbpq.NewItem{}); err != nil {
						return err
					}
				}
				return nil
			})
		}
		f.update(func(tx kv.Tx) error { return pushes(tx, f.Queue("q")) })
		f.together(func(tx kv.Tx, w *fdbpq.Work) error { return pushes(tx, w.Queue("q")) })
		if n := f.counts("q").Ready; n != 4 {
			f.Errorf("%d items, expected 4", n)
		}
		if err := f.fails(func(tx kv.Tx) error {
			return f.Queue("q").In(tx, func(fdbpq.Queue) error { return errors.ErrUnsupported })
		}); !errors.Is(err, errors.ErrUnsupported) {
			f.Error(err)
		}
	})
}

// An item that is held by nobody would never end.
func TestCheckFindsWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		defer db.Close()
		f := newFixture(t, db)
		f.pushed("q", 5, "a")
		f.holds("q", "mover", 1)
		if problems, err := storecheck.Check(t.Context(), f.Store); err != nil || len(problems) > 0 {
			t.Fatalf("a good store: %q, %v", problems, err)
		}
		f.update(func(tx kv.Tx) error {
			for _, row := range f.rows("l") {
				without := bytes.Replace(row.Value, append(tuple.AppendInt(nil, 13), tuple.AppendBytes(nil, []byte("mover"))...), nil, 1) // the tag of holders
				tx.Set(row.Key, without)
			}
			return nil
		})
		if problems, err := storecheck.Check(t.Context(), f.Store); err != nil || !strings.Contains(strings.Join(problems, "\n"), "is held, and has no holder") {
			t.Errorf("Check says %q, %v", problems, err)
		}
	})
}
