package fdbpq_test

import (
	"bytes"
	"math"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Programs that follow the recipe read our items, and we read theirs, without
// spoiling our counters.
func TestRecipeItems(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.pushed("q", 5, "ours")
		row := f.rows("i")[0]
		payload, _, err := tuple.ConsumeBytes(row.Value)
		if err != nil || string(payload) != "ours" {
			t.Errorf("the first element of our value is %q, %v", payload, err)
		}
		theirs := map[string][]byte{
			"raw":   []byte("raw"),
			"bytes": tuple.AppendBytes(nil, []byte("bytes")),
			"text":  tuple.AppendString(nil, "text"),
			"":      {},
		}
		key := func(priority, count int64) []byte {
			b := tuple.AppendInt(tuple.AppendString(tuple.AppendString(nil, "i"), "q"), 1)
			return tuple.AppendBytes(tuple.AppendInt(tuple.AppendInt(b, priority), count), bytes.Repeat([]byte{0}, 20))
		}
		push := func() {
			f.update(func(tx kv.Tx) error {
				n := int64(0)
				for _, value := range theirs {
					tx.Set(key(n, 1000), value)
					n++
				}
				return nil
			})
		}
		push()
		q := f.Queue("q")
		item := f.leaseOne("q", time.Minute)
		if n := f.counts("q"); n.Ready != 1 || n.Leased != 1 || n.Bytes != 4+item.Size {
			t.Errorf("with one of theirs leased there are %+v", n)
		}
		if err := f.nack(*item.Lease, 0); err != nil {
			t.Error(err)
		}
		if n := f.counts("q"); n.Ready != 2 || n.Leased != 0 {
			t.Errorf("with one of theirs returned there are %+v", n)
		}
		for _, got := range f.pop("q", fdbpq.Min, 10).Items {
			if _, ok := theirs[string(got.Payload)]; !ok && string(got.Payload) != "ours" {
				t.Errorf("took %q", got.Payload)
			}
		}
		if n := f.counts("q"); n != (fdbpq.Counts{}) {
			t.Errorf("an empty queue has %+v", n)
		}
		push()
		f.update(func(tx kv.Tx) error {
			popped, err := q.Peek(tx, fdbpq.Selection{Limit: 10})
			if err != nil {
				return err
			}
			if _, err := q.Move(tx, popped.Items[0].ID, 7); err != nil {
				return err
			}
			_, err = q.Remove(tx, popped.Items[1].ID)
			return err
		})
		if n := f.counts("q"); n.Ready != 1 {
			t.Errorf("with one of theirs moved and one removed there are %+v", n)
		}
		f.pop("q", fdbpq.Min, 10)
	})
}

// Rows of other programs whose priorities are no 64-bit integers disturb nothing:
// neither at the ends, where floats and larger integers sort, nor in lists,
// nor when the queue is purged.
func TestPrioritiesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		f := openFixture(t, open)
		f.configure("q", `{"ties":"oldest"}`)
		ours := f.pushed("q", math.MinInt64, "first")
		ours = append(ours, f.pushed("q", math.MaxInt64, "last")...)
		for _, priority := range [][]byte{
			{0x00}, // null
			tuple.AppendString(nil, "5"),
			append([]byte{0x0b, 0xf6}, make([]byte, 9)...),               // a negative number of 9 bytes
			append([]byte{0x0c}, make([]byte, 8)...),                     // -2⁶⁴ + 1
			append([]byte{0x1c}, bytes.Repeat([]byte{0xff}, 8)...),       // 2⁶⁴ - 1, which Go's bindings decode as uint64
			append([]byte{0x1d, 0x09}, bytes.Repeat([]byte{0xff}, 9)...), // a number of 9 bytes
			{0x20, 0x80, 0, 0, 0},                                        // float32 0
			{0x21, 0xff, 0xf8, 0, 0, 0, 0, 0, 0},                         // not a number
			{0x21, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff},       // -0.0
			{0x27}, // true
		} {
			key := tuple.AppendInt(tuple.AppendString(tuple.AppendString(nil, "i"), "q"), 1)
			key = tuple.AppendBytes(tuple.AppendInt(append(key, priority...), 1), make([]byte, 20))
			f.update(func(tx kv.Tx) error {
				tx.Set(key, []byte("stranger"))
				return nil
			})
			for _, end := range []fdbpq.End{fdbpq.Min, fdbpq.Max} {
				popped := f.lease("q", end, 10, time.Minute)
				if got := payloads(popped.Items); len(got) != 2 {
					t.Errorf("beside priority %x, end %d hands out %q", priority, end, got)
				}
				for _, item := range popped.Items {
					f.settle(func(tx kv.Tx) (fdbpq.Settled, error) { return f.Queue("q").Return(tx, *item.Lease) })
				}
			}
			f.view(func(r kv.Reader) error {
				for _, after := range []*fdbpq.ID{nil, &ours[0], &ours[1]} {
					page, err := f.Queue("q").List(r, fdbpq.Listing{Limit: 10, After: after})
					if err != nil {
						t.Errorf("beside priority %x: a list: %v", priority, err)
					}
					for _, item := range page.Items {
						if string(item.Payload) == "stranger" {
							t.Errorf("beside priority %x: a list shows it", priority)
						}
					}
				}
				return nil
			})
			problems, err := storecheck.Check(t.Context(), f.Store)
			if err != nil || len(problems) > 0 {
				t.Errorf("beside priority %x: %q, %v", priority, problems, err)
			}
		}
		f.push("q", fdbpq.NewItem{TTL: time.Hour}) // so that rows are collected one by one
		f.update(func(tx kv.Tx) error {
			_, err := f.Queue("q").Purge(tx)
			return err
		})
		for more := true; more; {
			var err error
			if more, err = f.CollectGarbage(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if rows := f.rows("i"); len(rows) > 0 {
			t.Errorf("%d rows are left", len(rows))
		}
	})
}
