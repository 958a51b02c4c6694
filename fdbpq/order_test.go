package fdbpq_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func TestPriorities(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"priority":9223372036854775806}`)
		order := []int64{math.MinInt64, math.MinInt64 + 1, -1 << 32, -256, -255, -1, 0, 1, 255, 256, 65536, 1<<53 + 1, math.MaxInt64}
		shuffled := slices.Clone(order)
		slices.Reverse(shuffled)
		shuffled = append(shuffled[5:], shuffled[:5]...)
		for _, priority := range shuffled {
			f.pushed("q", priority, fmt.Sprint(priority))
		}
		f.push("q", fdbpq.NewItem{Payload: []byte("9223372036854775806")}) // with the queue's default
		order = slices.Insert(order, len(order)-1, math.MaxInt64-1)
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			f.view(func(r kv.Reader) error {
				found, err := f.Queue("q").Peek(r, fdbpq.Selection{End: end, Limit: 100})
				for i, item := range found.Items {
					if item.Priority != order[i] || string(item.Payload) != fmt.Sprint(order[i]) {
						t.Errorf("end %d, item %d has priority %d and payload %s, expected %d", end, i, item.Priority, item.Payload, order[i])
					}
				}
				if len(found.Items) != len(order) {
					t.Errorf("found %d items, expected %d", len(found.Items), len(order))
				}
				return err
			})
			slices.Reverse(order)
		}
		for _, bad := range []string{"9223372036854775808", "-9223372036854775809", "1.5", "1e3", "NaN", `"5"`, "-0.0"} {
			err := f.fails(func(tx kv.Tx) error {
				_, err := f.Queue("q").Configure(tx, []byte(`{"priority":`+bad+`}`))
				return err
			})
			var config *fdbpq.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("priority %s: %v", bad, err)
			}
		}
	})
}

// Bands include both ends, at the edges of all priorities as well.
func TestBands(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		priorities := []int64{math.MinInt64, -256, -1, 0, 255, 256, math.MaxInt64}
		for _, priority := range priorities {
			f.pushed("q", priority, "")
		}
		for _, low := range priorities {
			for _, high := range priorities {
				want := 0
				for _, priority := range priorities {
					if low <= priority && priority <= high {
						want++
					}
				}
				for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
					f.view(func(r kv.Reader) error {
						found, err := f.Queue("q").Peek(r, fdbpq.Selection{End: end, Band: &fdbpq.Band{Low: low, High: high}, Limit: 10})
						if len(found.Items) != want {
							t.Errorf("band %d to %d has %d items, expected %d", low, high, len(found.Items), want)
						}
						return err
					})
				}
			}
		}
	})
}

func TestTies(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		for _, priority := range []int64{1, 2} {
			for i := range 300 { // past the counts that one byte holds
				f.pushed("q", priority, fmt.Sprint(i))
			}
		}
		pop := func(end fdbpq.End) string {
			t.Helper()
			var peeked fdbpq.Popped
			f.view(func(r kv.Reader) (err error) {
				peeked, err = f.Queue("q").Peek(r, fdbpq.Selection{End: end, Limit: 1})
				return err
			})
			popped := f.pop("q", end, 1)
			if peeked.Items[0].ID != popped.Items[0].ID {
				t.Errorf("a peek that nobody disturbed shows %v, the pop returns %v", peeked.Items[0].ID, popped.Items[0].ID)
			}
			return fmt.Sprint(popped.Items[0].Priority, " ", string(popped.Items[0].Payload))
		}
		for i := range 3 {
			if got, want := pop(fdbpq.Min), fmt.Sprint(1, " ", i); got != want {
				t.Errorf("min returns %s, expected %s", got, want)
			}
			if got, want := pop(fdbpq.Max), fmt.Sprint(2, " ", 299-i); got != want {
				t.Errorf("max returns %s, expected %s", got, want)
			}
		}
		f.configure("q", `{"ties":"oldest"}`)
		for i := range 3 {
			if got, want := pop(fdbpq.Max), fmt.Sprint(2, " ", i); got != want {
				t.Errorf("max returns %s with the oldest first, expected %s", got, want)
			}
		}
		// From one level to the next, within a batch.
		if got := f.pop("q", fdbpq.Max, 1000).Items; len(got) != 591 || got[0].Priority != 2 || got[293].Priority != 2 ||
			got[294].Priority != 1 || string(got[294].Payload) != "3" {
			t.Errorf("a batch over two levels has %d items", len(got))
		}
	})
}

// Pushes at the same time may get the same count. Then chance orders them, for
// good.
func TestTiesOfConcurrentPushes(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		other := f.another(0)
		var first, second []fdbpq.Pushed
		f.update(func(tx kv.Tx) (err error) {
			if first, err = f.Queue("q").Push(tx, fdbpq.NewItem{}); err != nil {
				return err
			}
			if second == nil {
				second = other.push("q", fdbpq.NewItem{})
			}
			return nil
		})
		// The first push made the queue, so one of them had to run again.
		if first[0].Seq != second[0].Seq+1 {
			t.Errorf("places %d and %d", first[0].Seq, second[0].Seq)
		}
		runs := 0
		second = nil
		f.update(func(tx kv.Tx) (err error) {
			runs++
			if first, err = f.Queue("q").Push(tx, fdbpq.NewItem{}); err != nil {
				return err
			}
			if second == nil {
				second = other.push("q", fdbpq.NewItem{})
			}
			return nil
		})
		if runs != 1 || first[0].Seq != second[0].Seq || first[0].ID == second[0].ID {
			t.Errorf("%d runs, places %d and %d", runs, first[0].Seq, second[0].Seq)
		}
		var orders []string
		for range 3 {
			popped := f.lease("q", fdbpq.Min, 10, time.Minute)
			var ids string
			for _, item := range popped.Items {
				ids += item.ID.String() + " "
				if err := f.nack(*item.Lease, 0); err != nil {
					t.Fatal(err)
				}
			}
			orders = append(orders, ids)
		}
		if len(slices.Compact(orders)) != 1 {
			t.Errorf("the order changes: %q", orders)
		}
		if next := f.push("q", fdbpq.NewItem{})[0]; next.Seq <= first[0].Seq {
			t.Errorf("the next place is %d", next.Seq)
		}
	})
}

// The count goes on when a priority, or the queue, has drained, or was purged.
func TestCountNeverRestarts(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		last := int64(0)
		again := func(what string) {
			t.Helper()
			p := f.push("q", fdbpq.NewItem{})[0]
			if p.Seq <= last {
				t.Errorf("after %s the place is %d, it was %d before", what, p.Seq, last)
			}
			last = p.Seq
		}
		again("the beginning")
		for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
			f.pop("q", end, 1)
			again("draining")
		}
		f.purge("q")
		again("a purge")
	})
}

// A delayed or leased item returns to its own place.
func TestPlaceIsForLife(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"max_deliveries":0}`)
		f.pushed("q", 0, "a")
		f.push("q", fdbpq.NewItem{Payload: []byte("b"), Delay: time.Second})
		f.pushed("q", 0, "c", "d", "e")
		away := map[string]func(fdbpq.Lease){
			"nacked":     func(l fdbpq.Lease) { f.nack(l, 0) },
			"nacked for": func(l fdbpq.Lease) { f.nack(l, 10*time.Second) },
			"returned": func(l fdbpq.Lease) {
				f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, l) })
			},
			"run out": func(fdbpq.Lease) {},
			"moved": func(l fdbpq.Lease) {
				f.update(func(tx kv.Tx) error {
					_, err := f.Queue("q").Move(tx, l.ID(), 99)
					return err
				})
				f.nack(l, 0)
				f.update(func(tx kv.Tx) error {
					_, err := f.Queue("q").Move(tx, l.ID(), 0)
					return err
				})
			},
		}
		f.pass(2 * time.Second)
		f.sweep()
		for how, fn := range away {
			popped := f.lease("q", fdbpq.Min, 3, time.Minute)
			if got := fmt.Sprint(payloads(popped.Items)); got != "[a b c]" {
				t.Fatalf("before %s: the first items are %s", how, got)
			}
			for i := range popped.Items {
				fn(*popped.Items[len(popped.Items)-1-i].Lease)
			}
			f.pass(2 * time.Minute)
			f.sweep()
		}
		if got := fmt.Sprint(payloads(f.pop("q", fdbpq.Min, 10).Items)); got != "[a b c d e]" {
			t.Errorf("in the end there is %s", got)
		}
	})
}
