package fdbpq_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A store with rows of every kind.
func (f *fixture) furnish() {
	f.Helper()
	f.push("q",
		fdbpq.NewItem{Payload: []byte("ready"), MsgID: "id"},
		fdbpq.NewItem{Payload: []byte("mortal"), TTL: time.Hour},
		fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Hour, TTL: 2 * time.Hour},
		fdbpq.NewItem{Payload: bytes.Repeat([]byte("large"), 40_000)},
	)
	f.push("zz", fdbpq.NewItem{Payload: bytes.Repeat([]byte("large"), 40_000)})
	moved := f.pushed("q", 5, "moved")[0]
	f.update(func(tx kv.Tx) error {
		_, err := f.Queue("q").Move(tx, moved, 7)
		return err
	})
	f.pushed("q", -1, "leased", "taken")
	f.leaseOne("q", time.Hour)
	f.update(func(tx kv.Tx) error {
		sel := fdbpq.Selection{Limit: 1, PopID: "pop"}
		if _, err := f.Queue("q").Pop(tx, sel); err != nil {
			return err
		}
		sel.PopID = "large pop"
		_, err := f.Queue("zz").Pop(tx, sel)
		return err
	})
}

// Check finds every kind of damage.
func TestCheckFindsDamage(t *testing.T) {
	t.Parallel()
	first := func(space string) func(*testing.T, *fixture) kv.Pair {
		return func(t *testing.T, f *fixture) kv.Pair {
			rows := f.rows(space)
			if len(rows) == 0 {
				t.Fatalf("there is no row of kind %q", space)
			}
			return rows[0]
		}
	}
	remove := func(tx kv.Tx, row kv.Pair) { tx.Clear(row.Key) }
	spoil := func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, []byte("\x05nonsense")) }
	copied := func(tx kv.Tx, row kv.Pair) { tx.Set(append(row.Key, 0x15, 0x01), row.Value) }
	for _, c := range []struct {
		what string
		row  func(*testing.T, *fixture) kv.Pair
		do   func(kv.Tx, kv.Pair)
		want string
	}{
		{"a ready item is gone", first("i"), remove, "counters are"},
		{"a delayed item is gone", first("d"), remove, "timer of kind"},
		{"a leased item is gone", first("l"), remove, "timer of kind"},
		{"a delayed item is unreadable", first("d"), spoil, "damaged"},
		{"a leased item is unreadable", first("l"), spoil, "damaged"},
		{"a counter is wrong", first("c"), func(tx kv.Tx, row kv.Pair) { tx.Add(row.Key, 1) }, "counters are"},
		{"a timer is gone", first("z"), remove, "is missing"},
		{"a timer has no item", first("z"), copied, "without an item or an id"},
		{"a chunk is gone", first("x"), remove, "bytes of its payload are missing"},
		{"a chunk is cut", first("x"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, row.Value[1:]) }, "1 bytes of its payload are missing"},
		{"a chunk belongs to nobody", first("x"), func(tx kv.Tx, row kv.Pair) {
			key := bytes.Clone(row.Key)
			key[len(key)-6]++ // in the random part
			tx.Set(key, row.Value)
		}, "chunk of no item"},
		{"a forwarding row is gone", first("f"), remove, "forwarding row"},
		{"a forwarding row leads nowhere", first("f"), copied, "leads to no item"},
		{"a message id is gone", first("u"), remove, "counters are"},
		{"a message id is unreadable", first("u"), spoil, "damaged"},
		{"a pop id is gone", first("p"), remove, "counters are"},
		{"the items of a pop are gone", first("r"), remove, "of its items are missing"},
		{"a part of a pop's item is gone", func(t *testing.T, f *fixture) kv.Pair {
			return f.rows("r")[2] // behind both pops' items
		}, remove, "bytes of its payload are missing"},
		{"items belong to no pop", first("r"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(bytes.Replace(row.Key, []byte("pop"), []byte("pip"), 1), row.Value)
		}, "of no remembered pop"},
		{"the highest count is too low", first("h"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, kv.EncodeInteger(1)) }, "the highest assigned is 1"},
		{"the state is unreadable", first("q"), spoil, "damaged"},
		{"the state is gone", first("q"), remove, "there is no queue"},
		{"the generation is set back", first("q"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(row.Key, bytes.Replace(row.Value, []byte{0x15, 1, 0x15, 1}, []byte{0x15, 1, 0x14}, 1))
		}, "in the future"},
	} {
		t.Run(c.what, func(t *testing.T) {
			eachEngine(t, func(t *testing.T, open func() kv.DB) {
				db := open()
				defer db.Close()
				f := newFixture(t, db)
				f.furnish()
				problems, err := f.Check(t.Context())
				if err != nil || len(problems) > 0 {
					t.Fatalf("a good store: %q, %v", problems, err)
				}
				row := c.row(t, f)
				err = db.Update(t.Context(), func(tx kv.Tx) error {
					c.do(tx, kv.Pair{Key: bytes.Clone(row.Key), Value: row.Value})
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				if problems, err = f.Check(t.Context()); err != nil || !strings.Contains(strings.Join(problems, "\n"), c.want) {
					t.Errorf("Check says %q, %v: expected something about %q", problems, err, c.want)
				}
			})
		})
	}
}
