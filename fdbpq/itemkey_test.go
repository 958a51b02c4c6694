package fdbpq_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
)

// keyed pushes items "<key><n>" with a priority, one after another.
func (f *fixture) keyed(queue, key string, priority int64, n int) []fdbpq.ID {
	f.Helper()
	var ids []fdbpq.ID
	for i := range n {
		pushed := f.push(queue, fdbpq.NewItem{Payload: fmt.Append(nil, key, i), Key: key, Priority: priority, HasPriority: true})
		ids = append(ids, pushed[0].ID)
	}
	return ids
}

// takes leases up to n items and expects these.
func (f *fixture) takes(queue string, n int, want ...string) []fdbpq.Item {
	f.Helper()
	taken := f.lease(queue, fdbpq.Min, n, time.Minute)
	if got := payloads(taken.Items); !slices.Equal(got, want) {
		f.Errorf("a pop of %d took %q, expected %q", n, got, want)
	}
	return taken.Items
}

// blocked expects that ready items wait for others.
func (f *fixture) blocked(queue string) {
	f.Helper()
	if taken := f.lease(queue, fdbpq.Min, 5, time.Minute); len(taken.Items) > 0 || taken.Reason != fdbpq.ReasonBlocked {
		f.Errorf("a pop took %q, reason %q: expected blocked", payloads(taken.Items), taken.Reason)
	}
}

func (f *fixture) expectWaitsFor(queue string, id fdbpq.ID, want fdbpq.WaitsFor) {
	f.Helper()
	if got := f.get(queue, id).WaitsFor; got != want {
		f.Errorf("the item waits for %q, expected %q", got, want)
	}
}

// sound expects that Check finds nothing.
func (f *fixture) sound() {
	f.Helper()
	if problems, err := storecheck.Check(f.Context(), f.Store); err != nil || len(problems) > 0 {
		f.Errorf("Check says %q, %v", problems, err)
	}
}

// Of each key as many items are leased as may be, and others go past those that wait.
func TestKeyLimit(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.keyed("q", "a", 0, 4)
		b := f.keyed("q", "b", 5, 2)
		f.pushed("q", 9, "free", "too")
		f.configure("q", `{"key_limit":2}`)
		first := f.takes("q", 3, "a0", "a1", "b0")
		f.takes("q", 5, "b1", "free", "too")
		f.blocked("q")
		if err := f.ack(*first[1].Lease); err != nil {
			t.Fatal(err)
		}
		f.takes("q", 5, "a2")
		f.blocked("q")
		if err := f.nack(*first[0].Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.takes("q", 5, "a0") // where it was, in front of a3
		f.configure("q", `{"key_limit":3}`)
		f.takes("q", 5, "a3")
		f.expectWaitsFor("q", b[0], "")
		f.sound()
	})
}

// The items of a key are handed out one after another: the next one when the one before
// is gone or dead, whatever happens to it in between.
func TestKeyOrder(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"key_order":true,"max_deliveries":3}`)
		f.keyed("q", "a", 5, 2)
		item := f.takes("q", 9, "a0")[0]
		urgent := f.keyed("q", "a", 0, 1)[0]
		f.push("q", fdbpq.NewItem{Payload: []byte("later"), Key: "a", Delay: time.Second})
		f.expectWaitsFor("q", urgent, fdbpq.WaitsForKeyOrder)
		f.blocked("q")
		if err := f.nack(*item.Lease, 0); err != nil {
			t.Fatal(err)
		}
		f.expectWaitsFor("q", urgent, fdbpq.WaitsForKeyOrder) // the one that was leased before comes first
		item = f.takes("q", 9, "a0")[0]
		if err := f.nack(*item.Lease, 2*time.Second); err != nil {
			t.Fatal(err)
		}
		f.blocked("q") // while it is delayed
		f.pass(3 * time.Second)
		f.sweep()
		f.takes("q", 9, "a0")
		f.pass(2 * time.Minute) // its lease runs out
		f.sweep()
		item = f.takes("q", 9, "a0")[0]
		if err := f.nack(*item.Lease, 0); err != nil { // its third failure: it is dead
			t.Fatal(err)
		}
		item = f.takes("q", 9, "a0")[0] // the urgent one
		if item.ID != urgent {
			t.Error("another item came first")
		}
		if err := f.ack(*item.Lease); err != nil {
			t.Fatal(err)
		}
		item = f.takes("q", 9, "later")[0]
		if err := f.ack(*item.Lease); err != nil {
			t.Fatal(err)
		}
		f.takes("q", 9, "a1")
		f.sound()
	})
}

// All items of a key that is paused wait for the end of the pause, the first one and the others.
func TestPausedKeyWaitsForPause(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, config := range []string{`{"key_order":false}`, `{"key_limit":1}`, `{"key_order":true}`} {
			f.configure("q", config)
			ids := f.keyed("q", "a", 0, 3)
			f.setKey("q", "a", `{"paused":true}`)
			for _, id := range ids {
				f.expectWaitsFor("q", id, fdbpq.WaitsForPause)
			}
			f.setKey("q", "a", `{"paused":false}`)
			f.purge("q")
		}
	})
}

// When order is switched on while several items of a key are leased, none is handed out
// until all have ended.
func TestKeyOrderBeginsLate(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.keyed("q", "a", 0, 3)
		taken := f.takes("q", 2, "a0", "a1")
		f.configure("q", `{"key_order":true}`)
		for _, item := range taken {
			f.blocked("q")
			if err := f.ack(*item.Lease); err != nil {
				t.Fatal(err)
			}
		}
		f.takes("q", 2, "a2")
	})
}

// What a queue with limits cannot do is refused, and nothing happens.
func TestKeyLimitRefuses(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.keyed("q", "a", 0, 2)
		repeatable := fdbpq.Selection{Limit: 1, PopID: "before"}
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Pop(tx, repeatable)
			return err
		})
		for _, config := range []string{`{"key_limit":1}`, `{"key_limit":0,"key_order":true}`} {
			f.configure("q", config)
			band := fdbpq.Band{Low: 0, High: 5}
			for _, c := range []struct {
				sel   fdbpq.Selection
				lease time.Duration
				want  error
			}{
				{fdbpq.Selection{Limit: 1}, 0, fdbpq.ErrLeaseRequired},
				{fdbpq.Selection{Limit: 1, End: fdbpq.Max}, time.Minute, fdbpq.ErrOnlyMin},
				{fdbpq.Selection{Limit: 1, Band: &band}, time.Minute, fdbpq.ErrOnlyMin},
			} {
				if _, err := f.Staged(t.Context(), "q", c.sel, c.lease); !errors.Is(err, c.want) {
					t.Errorf("%s: a staged pop: %v, expected %v", config, err, c.want)
				}
				err := f.fails(func(tx kv.Tx) (err error) {
					if c.lease == 0 {
						_, err = f.Queue("q").Pop(tx, c.sel)
					} else {
						_, err = f.Queue("q").Lease(tx, c.sel, c.lease)
					}
					return err
				})
				if !errors.Is(err, c.want) {
					t.Errorf("%s: %v, expected %v", config, err, c.want)
				}
				if c.want != fdbpq.ErrOnlyMin {
					continue
				}
				if err := f.Store.View(t.Context(), func(r kv.Reader) error {
					_, err := f.Queue("q").Peek(r, c.sel)
					return err
				}); !errors.Is(err, c.want) {
					t.Errorf("%s: a peek: %v, expected %v", config, err, c.want)
				}
			}
			// What was popped before is answered again.
			f.update(func(tx kv.Tx) error {
				again, err := f.Queue("q").Pop(tx, repeatable)
				if err == nil && len(again.Items) != 1 {
					err = errors.New("the repeated pop has no item")
				}
				return err
			})
		}
	})
}

func TestKeyIsChecked(t *testing.T) {
	t.Parallel()
	for _, key := range []string{strings.Repeat("k", fdbpq.MaxKey+1), "a\xff", "a\nb", " a", "a ", "\u00a0a"} {
		if err := fdbpq.CheckKey(key); !errors.Is(err, fdbpq.ErrKey) {
			t.Errorf("%q: %v", key, err)
		}
	}
	for _, key := range []string{"", strings.Repeat("k", fdbpq.MaxKey), "a b", "größe", "a.b/c"} {
		if err := fdbpq.CheckKey(key); err != nil {
			t.Errorf("%q: %v", key, err)
		}
	}
}

// The key stays with the item in every state, and when it is dead.
func TestKeyStaysWithItem(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		id := f.push("q", fdbpq.NewItem{Key: "a", Delay: time.Second, Payload: []byte("x")})[0].ID
		expect := func(what, key string) {
			t.Helper()
			if key != "a" {
				t.Errorf("%s, the item has the key %q", what, key)
			}
		}
		expect("delayed", f.get("q", id).Key)
		f.expectWaitsFor("q", id, fdbpq.WaitsForDelay)
		f.pass(2 * time.Second)
		f.sweep()
		expect("ready", f.get("q", id).Key)
		f.update(func(tx kv.Tx) error { return f.Queue("q").Pause(tx) })
		f.expectWaitsFor("q", id, fdbpq.WaitsForPause)
		f.update(func(tx kv.Tx) error { return f.Queue("q").Resume(tx) })
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Move(tx, id, 3)
			return err
		})
		item := f.leaseOne("q", time.Minute)
		expect("popped", item.Key)
		expect("leased", f.get("q", id).Key)
		if err := f.settle(func(tx kv.Tx) (fdbpq.Settled, error) {
			return f.Queue("q").Terminate(tx, *item.Lease, "")
		}); err != nil {
			t.Fatal(err)
		}
		expect("dead", f.leaseOne("q-dead", time.Minute).Key)
		f.sound()
	})
}
