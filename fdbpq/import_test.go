package fdbpq_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// everything returns all items of a queue, whatever their state, as they are
// to be imported elsewhere.
func (f *fixture) everything(queue string) (items []fdbpq.Import) {
	f.Helper()
	for _, state := range []fdbpq.State{fdbpq.StateReady, fdbpq.StateDelayed, fdbpq.StateLeased} {
		f.view(func(r kv.Reader) error {
			page, err := f.Queue(queue).List(r, fdbpq.Listing{State: state, Limit: fdbpq.MaxBatch, Bodies: true})
			for _, stored := range page.Items {
				item := fdbpq.Import{
					ID: stored.ID, Priority: stored.Priority, Payload: stored.Payload, Headers: stored.Headers, Pushed: stored.Pushed,
					Deliveries: stored.Deliveries, Endings: stored.Endings, Fence: stored.Fence, Dead: stored.Dead,
				}
				if stored.Expires != 0 {
					item.Expires = f.Display(stored.Expires)
				}
				if stored.State == fdbpq.StateDelayed {
					item.NotBefore = f.Display(stored.Due)
				}
				items = append(items, item)
			}
			return err
		})
	}
	return items
}

// After an import every item is at the same place in another store, with the same id.
// Leased items become ready.
func TestImportElsewhere(t *testing.T) {
	t.Parallel()
	between := tested(t)
	if between[0].name != "local" {
		between = append(between, engines[0])
	}
	for _, from := range between {
		for _, to := range between {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				place := func(e engine) func() kv.DB {
					open := e.place(t)
					return func() kv.DB {
						db, err := open()
						if err != nil {
							t.Fatal(err)
						}
						return db
					}
				}
				a, f := openFixture(t, place(from)), openFixture(t, place(to))
				a.furnish()
				a.update(func(tx kv.Tx) error { // a dead one
					popped, err := a.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1}, time.Hour)
					if err == nil {
						_, err = a.Queue("q").Terminate(tx, *popped.Items[0].Lease, "poison")
					}
					return err
				})
				for _, queue := range []string{"q", "q-dead"} {
					items := a.everything(queue)
					shuffled := slices.Clone(items)
					rand.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
					for _, want := range []bool{false, true} { // and again
						f.update(func(tx kv.Tx) error {
							imported, err := f.Queue(queue).Import(tx, shuffled...)
							for i, one := range imported {
								if one.Err != nil || (one.Found != nil) != want || want && one.Found.ID != shuffled[i].ID {
									t.Errorf("%s: import of %s: %+v", queue, shuffled[i].ID, one)
								}
							}
							return err
						})
					}
					byID := func(x, y fdbpq.Import) int { return strings.Compare(x.ID.String(), y.ID.String()) }
					got := f.everything(queue)
					slices.SortFunc(items, byID)
					slices.SortFunc(got, byID)
					if len(items) == 0 || len(got) != len(items) {
						t.Fatalf("%s: %d items became %d", queue, len(items), len(got))
					}
					for i, want := range items {
						have := got[i]
						near := func(x, y time.Time) bool { return x.Sub(y).Abs() < time.Minute } // clocks of two processes
						if have.ID != want.ID || have.Priority != want.Priority || !bytes.Equal(have.Payload, want.Payload) ||
							!bytes.Equal(have.Headers, want.Headers) || !have.Pushed.Equal(want.Pushed) || have.Deliveries != want.Deliveries ||
							have.Fence != want.Fence || !near(have.NotBefore, want.NotBefore) || !near(have.Expires, want.Expires) ||
							(have.Dead == nil) != (want.Dead == nil) || have.Dead != nil && *have.Dead != *want.Dead {
							t.Errorf("%s: item %s became\n%+v, expected\n%+v", queue, want.ID, have, want)
						}
					}
				}
				after := f.pushed("q", 5, "later")[0]
				if last := a.pushed("q", 5, "last")[0]; f.get("q", after).Seq < a.get("q", last).Seq-1 {
					t.Errorf("a push got the place %d, among those that were imported", f.get("q", after).Seq)
				}
			})
		}
	}
}

// An import is refused if another item has the place.
func TestImportOccupied(t *testing.T) {
	t.Parallel()
	f := openFixture(t, func() kv.DB {
		db, err := placeLocal(t)()
		if err != nil {
			t.Fatal(err)
		}
		return db
	})
	id := func(priority, count int64, random string) fdbpq.ID {
		bytes := tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(nil, priority), count), []byte(random))
		return parseID(base64.RawURLEncoding.EncodeToString(bytes))
	}
	large := make([]byte, 100_000)
	for _, c := range []struct {
		what string
		item fdbpq.Import
		want error
	}{
		{"the first", fdbpq.Import{ID: id(1, 1, "a"), Priority: 2, Payload: large}, nil},
		{"the place it moved to", fdbpq.Import{ID: id(2, 1, "a"), Priority: 2}, fdbpq.ErrOccupied},
		{"from elsewhere", fdbpq.Import{ID: id(3, 1, "a"), Priority: 2}, fdbpq.ErrOccupied},
		{"the rows of its payload", fdbpq.Import{ID: id(4, 1, "a"), Priority: 4, Payload: large}, fdbpq.ErrOccupied},
		{"another random part", fdbpq.Import{ID: id(2, 1, "b"), Priority: 2, Payload: large}, nil},
		{"no count", fdbpq.Import{ID: id(2, -1, "b"), Priority: 2}, fdbpq.ErrPlace},
		{"the recipe's first count", fdbpq.Import{ID: id(2, 0, "12345678901234567890"), Priority: 2}, nil},
		{"a count that leaves no room", fdbpq.Import{ID: id(2, math.MaxInt64, "b"), Priority: 2}, fdbpq.ErrPlace},
		{"a random part that is none", fdbpq.Import{ID: id(2, 1, strings.Repeat("b", 64)), Priority: 2}, fdbpq.ErrPlace},
		{"too large", fdbpq.Import{ID: id(2, 2, "b"), Priority: 2, Payload: make([]byte, fdbpq.MaxContent+1)}, fdbpq.ErrContent},
		{"never", fdbpq.Import{ID: id(2, 2, "b"), Priority: 2, NotBefore: time.Now().Add(20 * 365 * 24 * time.Hour)}, fdbpq.ErrTime},
	} {
		f.update(func(tx kv.Tx) error {
			imported, err := f.Queue("q").Import(tx, c.item)
			if err == nil && (!errors.Is(imported[0].Err, c.want) || imported[0].Found != nil) {
				t.Errorf("%s: got %+v, expected %v", c.what, imported[0], c.want)
			}
			return err
		})
	}
}

// Items of one import are in each other's way like those of several: the same id comes
// once, and a place to which the first item was moved is taken.
func TestImportOfOneTransaction(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		home := base64.RawURLEncoding.EncodeToString(tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(nil, 1), 1), []byte("a")))
		there := base64.RawURLEncoding.EncodeToString(tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(nil, 2), 1), []byte("a")))
		moved := fdbpq.Import{ID: parseID(home), Priority: 2, Deliveries: 3}
		imported := f.imports("q", moved, moved, fdbpq.Import{ID: parseID(there), Priority: 2})
		if imported[0].Err != nil || imported[0].Found != nil || imported[1].Err != nil || imported[1].Found == nil {
			t.Errorf("one id twice: %+v, expected that the second is found", imported[:2])
		}
		if !errors.Is(imported[2].Err, fdbpq.ErrOccupied) {
			t.Errorf("the place to which the first was moved: %+v, expected ErrOccupied", imported[2])
		}
		if n := f.counts("q"); n.Ready != 1 {
			t.Errorf("counts are %+v, expected one item", n)
		}
		// A delivery had a fence, also if the export has none.
		if stored := f.get("q", moved.ID); stored.Fence != 3 {
			t.Errorf("an item with 3 deliveries has fence %d, expected 3", stored.Fence)
		}
	})
}

// An import finds items that were moved since the export.
func TestImportOfItemsMovedSince(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		ids := f.pushed("q", 1, "one", "two")
		export := f.everything("q")
		for _, id := range ids {
			f.update(func(tx kv.Tx) error {
				_, err := f.Queue("q").Move(tx, id, 9)
				return err
			})
		}
		for i, one := range f.imports("q", export...) {
			if one.Err != nil || one.Found == nil || one.Found.Priority != 9 {
				t.Errorf("item %d: %+v, expected to find it with priority 9", i, one)
			}
		}
		if n := f.counts("q"); n.Ready != 2 {
			t.Errorf("counts are %+v, expected two items", n)
		}
	})
}

// An import of the same items by two processes at once happens once. One item is
// looked for by itself, several together.
func TestImportMeetsItself(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		rng := rand.New(rand.NewPCG(1, 1))
		for n := range 2 {
			queue := fmt.Sprint("q", n)
			var items []fdbpq.Import
			for range n + 1 {
				items = append(items, fdbpq.Import{ID: parseID(madeUpID(rng, 3, 3)), Priority: 3, Payload: []byte("once")})
			}
			var imported []fdbpq.Imported
			bring := func(tx kv.Tx) (err error) {
				imported, err = f.Queue(queue).Import(tx, items...)
				return err
			}
			f.update(func(tx kv.Tx) error { // the queue is there: what meets are the items
				_, err := f.Queue(queue).Configure(tx, []byte(`{}`))
				return err
			})
			runs := 0
			f.update(func(tx kv.Tx) error {
				if err := bring(tx); err != nil {
					return err
				}
				if runs++; runs > 1 {
					return nil
				}
				other := make(chan error)
				go func() { other <- f.base.Update(context.WithoutCancel(t.Context()), bring) }()
				return <-other
			})
			if runs != 2 || imported[n].Found == nil {
				t.Errorf("%d items: ran %d times, and found %v: expected the other one's in a second run", n+1, runs, imported[n].Found)
			}
			if ready := f.counts(queue).Ready; ready != int64(len(items)) {
				t.Errorf("there are %d items, expected %d", ready, len(items))
			}
		}
	})
}

// An item imported after a purge to its former place is another item for earlier leases.
func TestImportAfterPurge(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
		var before fdbpq.Popped
		pop := func(tx kv.Tx) (err error) {
			before, err = f.Queue("q").Lease(tx, fdbpq.Selection{Limit: 1, PopID: "pop"}, time.Hour)
			return err
		}
		f.update(pop)
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Purge(tx)
			return err
		})
		f.update(func(tx kv.Tx) error {
			imported, err := f.Queue("q").Import(tx, fdbpq.Import{ID: id, Payload: []byte("one")})
			if err == nil {
				err = imported[0].Err
			}
			return err
		})
		again := f.leaseOne("q", time.Hour)
		if old := before.Items[0].Lease; again.ID != id || again.Lease.Fence <= old.Fence {
			t.Fatalf("item %v has fence %d, expected %v and more than %d", again.ID, again.Lease.Fence, id, old.Fence)
		}
		f.configure("q", `{"hand_over":"*"}`)
		for what, err := range map[string]error{
			"handing over":  f.handOver("other", *before.Items[0].Lease, fdbpq.NewItem{}).Err,
			"acknowledging": f.ack(*before.Items[0].Lease),
			"nacking":       f.nack(*before.Items[0].Lease, 0),
			"popping again": f.fails(pop),
		} {
			var lost *fdbpq.LostError
			if !errors.As(err, &lost) || lost.Reason != fdbpq.LostGone {
				t.Errorf("%s with what was leased before the purge: %v", what, err)
			}
		}
		if err := f.ack(*again.Lease); err != nil {
			t.Error(err)
		}
	})
}

// An item that is imported again from an earlier export gets no fence that it had
// before, so an earlier lease neither settles the new one nor passes a guard that has
// seen the new fence.
func TestImportAgain(t *testing.T) {
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.pushed("q", 0, "one")[0]
		export := f.everything("q")[0]
		far := export
		far.Fence = 1 << 55
		var leases []fdbpq.Lease
		for _, item := range []fdbpq.Import{export, export, far, far, export} {
			old := f.leaseOne("q", time.Hour)
			for _, l := range leases {
				if l.Fence >= old.Lease.Fence {
					t.Fatalf("fence %d after fence %d", old.Lease.Fence, l.Fence)
				}
				if why := lost(f.ack(l)); why != fdbpq.LostTaken {
					t.Errorf("acknowledging with fence %d what has fence %d: %q, expected that it was taken", l.Fence, old.Lease.Fence, why)
				}
			}
			leases = append(leases, *old.Lease)
			f.remove("q", id)
			if one := f.imports("q", item)[0]; one.Err != nil || one.Found != nil {
				t.Fatalf("import: %+v", one)
			}
		}
		if got := f.get("q", id).Fence; got != export.Fence {
			t.Errorf("before its next lease the item has fence %d, expected the one that was imported, %d", got, export.Fence)
		}
	})
}
