package fdbpq_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/storecheck"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A store with rows of every kind.
func (f *fixture) furnish() {
	f.Helper()
	f.push("q",
		fdbpq.NewItem{Payload: []byte("ready"), MsgID: "id"},
		fdbpq.NewItem{Payload: []byte("mortal"), TTL: time.Hour, Unique: "value"},
		fdbpq.NewItem{Payload: []byte("delayed"), Delay: time.Hour, TTL: 2 * time.Hour},
		fdbpq.NewItem{Payload: bytes.Repeat([]byte("large"), 40_000)},
	)
	f.push("zz", fdbpq.NewItem{Priority: 9, HasPriority: true, Unique: strings.Repeat("long", 200)})
	f.keyed("r", "returned", 0, 1)
	if err := f.nack(*f.leaseOne("r", time.Hour).Lease, 0); err != nil {
		f.Fatal(err)
	}
	f.keyed("r", "leased", -1, 1)
	f.leaseOne("r", time.Hour)
	f.configure("t", `{"fair":"priority","rate":"9/1s","key_rate":"2/1h"}`)
	f.setKey("t", "set", `{"limit":3}`)
	f.push("t", fdbpq.NewItem{Key: "a", Weight: 5}, fdbpq.NewItem{Key: "a"}, fdbpq.NewItem{Key: "a"},
		fdbpq.NewItem{Key: "b"}, fdbpq.NewItem{Key: "b"}, fdbpq.NewItem{}, fdbpq.NewItem{})
	f.lease("t", fdbpq.Min, 4, time.Hour)
	f.push("t", fdbpq.NewItem{Key: "late"})
	f.configure("y", `{"fair":"priority"}`)
	f.keyed("y", "a", 0, 3)
	costly := f.leaseOne("y", time.Hour).Lease
	costly.Spent = new(int64(5))
	if err := f.ack(*costly); err != nil {
		f.Fatal(err)
	}
	f.leaseOne("y", time.Hour)
	f.configure("u", `{"key_order":true}`)
	f.keyed("u", "fenced", 0, 1)
	f.leaseOne("u", time.Hour)
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
	f.configure("x", `{"expire_empty":"1h"}`)
	f.asking("w", fdbpq.NewItem{})
	f.ackWith(*f.leaseOne("w", time.Hour).Lease, bytes.Repeat([]byte("large"), 40_000))
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
	timer := func(kind string) func(*testing.T, *fixture) kv.Pair {
		return func(t *testing.T, f *fixture) kv.Pair {
			for _, row := range f.rows("z") {
				if bytes.Contains(row.Key, tuple.AppendString(tuple.AppendString(nil, kind), "q")) {
					return row
				}
			}
			t.Fatalf("there is no timer of kind %q", kind)
			return kv.Pair{}
		}
	}
	rekeyed := func(from, to []byte) func(kv.Tx, kv.Pair) {
		return func(tx kv.Tx, row kv.Pair) { tx.Set(bytes.Replace(row.Key, from, to, 1), row.Value) }
	}
	copiedAs := func(from, to string) func(kv.Tx, kv.Pair) {
		return rekeyed(tuple.AppendString(nil, from), tuple.AppendString(nil, to))
	}
	request := func(tx kv.Tx, row kv.Pair, space string) {
		key := tuple.AppendString(tuple.AppendString(nil, space), "q")
		tx.Set(append(key, 0x15, 9), tuple.AppendInt(nil, 1))
	}
	spoil := func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, []byte("\x05nonsense")) }
	resultTimer := func(t *testing.T, f *fixture) kv.Pair {
		for _, row := range f.rows("z") {
			if bytes.Contains(row.Key, tuple.AppendString(tuple.AppendString(nil, "r"), "w")) {
				return row
			}
		}
		t.Fatal("there is no timer of results")
		return kv.Pair{}
	}
	overhead := func(t *testing.T, f *fixture) kv.Pair {
		for _, row := range f.rows("c") {
			if bytes.Equal(row.Key, layout.CounterKey("zz", 1, layout.CounterOverhead)) {
				return row
			}
		}
		t.Fatal("there is no counter of overhead")
		return kv.Pair{}
	}
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
		{"a counter is one that nobody knows", first("c"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(append(bytes.Clone(row.Key[:len(row.Key)-2]), 0x15, byte(layout.Counters)), row.Value)
		}, fmt.Sprint("unknown counter ", layout.Counters)},
		{"a counter has no rows", first("c"), rekeyed([]byte("q\x00\x14"), []byte("qq\x00\x14")), "there are no rows"},
		{"the timer of a lease is gone", timer("l"), remove, "is missing"},
		{"the timer of a delay is gone", timer("d"), remove, "is missing"},
		{"the timer of a TTL is gone", timer("t"), remove, "is missing"},
		{"the timer of a message id is gone", timer("u"), remove, "is missing"},
		{"the timer of a pop id is gone", timer("p"), remove, "is missing"},
		{"a request has no timer", first("q"), func(tx kv.Tx, row kv.Pair) { request(tx, row, "o") }, "is missing"},
		{"a result has no timer", first("q"), func(tx kv.Tx, row kv.Pair) { request(tx, row, "e") }, "is missing"},
		{"a timer has no item", timer("l"), copied, "without an item or an id"},
		{"a chunk is gone", first("x"), remove, "bytes of its payload are missing"},
		{"a chunk is cut", first("x"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, row.Value[1:]) }, "1 bytes of its payload are missing"},
		{"a chunk is too long", first("x"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, append(bytes.Clone(row.Value), 'x')) }, "-1 bytes of its payload are missing"},
		{"a chunk belongs to nobody", first("x"), func(tx kv.Tx, row kv.Pair) {
			key := bytes.Clone(row.Key)
			key[len(key)-6]++ // in the random part
			tx.Set(key, row.Value)
		}, "chunk of no item"},
		{"a forwarding row is gone", first("f"), remove, "is missing"},
		{"a forwarding row leads nowhere", first("f"), copied, "belongs to no item"},
		{"a forwarding row leads to another item", first("f"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, tuple.AppendInt(nil, 8)) }, "belongs to no item"},
		{"a unique value is gone", first("j"), remove, "is missing"},
		{"a unique value is that of another item", first("j"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, append(row.Value, 0)) }, "belongs to no item"},
		{"a unique value is that of no item", first("j"), rekeyed([]byte("value"), []byte("other")), "belongs to no item"},
		{"two items have a unique value", func(t *testing.T, f *fixture) kv.Pair {
			for _, row := range f.rows("i") {
				if bytes.Contains(row.Value, []byte("mortal")) {
					return row
				}
			}
			t.Fatal("there is no such item")
			return kv.Pair{}
		}, func(tx kv.Tx, row kv.Pair) {
			row.Key[len(row.Key)-6]++ // in the random part
			tx.Set(row.Key, row.Value)
		}, "two items have the row"},
		{"a key has no turn", first("fk"), remove, "has no turn"},
		{"a row of a key in turn is unreadable", first("fk"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key[:len(row.Key)-3], nil) }, "row \""},
		{"a row belongs to another order", first("fk"), rekeyed([]byte("t\x00\x15\x01\x15\x01"), []byte("t\x00\x15\x01\x15\x02")), "is not that of the queue"},
		{"a virtual time is unreadable", first("fc"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, nil) }, "a tag of 0 bytes"},
		{"a weight is unreadable", first("fw"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, tuple.AppendInt(nil, 1001)) }, "weight out of bounds"},
		{"what a key owes is unreadable", first("fo"), spoil, "what a key owes has"},
		{"what a key owes outlives its items", first("fo"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(append(row.Key[:len(row.Key)-2], "gone\x00"...), row.Value)
		}, "owes turns, and has no ready items"},
		{"a tag of a key is unreadable", first("ft"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, nil) }, "a tag of 0 bytes"},
		{"a key that waits for a token has no row", first("kw"), remove, "pops do not find the key"},
		{"a row of a key that waits is unreadable", first("kw"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key[:len(row.Key)-3], nil) }, "a key that waits"},
		{"tokens of a key are unreadable", first("kt"), spoil, "damaged tokens"},
		{"tokens of a queue are unreadable", first("qt"), spoil, "damaged tokens"},
		{"tokens of a queue that does not exist", first("qt"), rekeyed([]byte("\x02t\x00"), []byte("\x02v\x00")), "there is no queue"},
		{"the last fence of a key is gone", first("kf"), remove, "could get it again"},
		{"the last fence of a key is too low", first("kf"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(row.Key, kv.EncodeInteger(kv.DecodeInteger(row.Value)-1))
		}, "could get it again"},
		{"the last fence of a key is unreadable", first("kf"), spoil, "a fence of 9 bytes"},
		{"no timer forgets the last fence of a key", func(t *testing.T, f *fixture) kv.Pair {
			for _, row := range f.rows("z") {
				if bytes.Contains(row.Key, tuple.AppendString(tuple.AppendString(nil, "e"), "u")) {
					return row
				}
			}
			t.Fatal("there is no such timer")
			return kv.Pair{}
		}, remove, "no timer forgets"},
		{"settings of a key are gone", first("ks"), remove, "keys have settings"},
		{"settings of a key are unreadable", first("ks"), spoil, "invalid character"},
		{"an item with a key is gone", first("ik"), remove, "counters are"},
		{"an item with a key is unreadable", first("ik"), spoil, "damaged item"},
		{"an item with a key is among those without", first("ik"), func(tx kv.Tx, row kv.Pair) {
			tx.Clear(row.Key)
			tx.Set(bytes.Replace(row.Key, []byte("ik\x00"), []byte("i\x00"), 1), row.Value)
		}, "in the space"},
		{"a key does not know its ready item", first("kr"), remove, "is missing"},
		{"a key does not know its item that was leased before", first("kb"), remove, "is missing"},
		{"a key does not know its leased item", first("kl"), remove, "is missing"},
		{"a key has a ready item too many", first("kr"), copied, "belongs to no item"},
		{"a key has a leased item too many", first("kl"), copied, "belongs to no item"},
		{"pops do not find a key", first("kh"), remove, "pops do not find the key \"returned\""},
		{"pops find a key too late", first("kh"), func(tx kv.Tx, row kv.Pair) {
			tx.Clear(row.Key)
			tx.Set(bytes.Replace(row.Key, []byte("r\x00\x15\x01\x14"), []byte("r\x00\x15\x01\x15\x01"), 1), row.Value)
		}, "pops do not find the key \"returned\""},
		{"the row of a key is unreadable", first("kh"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, []byte("\xff")) }, "key \"\\xff\""},
		{"the counter of overhead is too low", overhead, func(tx kv.Tx, row kv.Pair) {
			tx.Set(row.Key, kv.EncodeInteger(kv.DecodeInteger(row.Value)-1))
		}, "counters are"},
		{"a message id is gone", first("u"), remove, "counters are"},
		{"a message id is unreadable", first("u"), spoil, "damaged"},
		{"a pop id is gone", first("p"), remove, "counters are"},
		{"the repetition of a pop of nothing is gone", func(t *testing.T, f *fixture) kv.Pair {
			f.nothing("zzz", "x", true, true, fdbpq.ReasonUnknown)
			return first("y")(t, f)
		}, remove, "is missing"},
		{"a repetition belongs to no pop", func(t *testing.T, f *fixture) kv.Pair {
			f.nothing("zzz", "x", true, true, fdbpq.ReasonUnknown)
			return first("y")(t, f)
		}, copiedAs("x", "xx"), "repetition of no remembered pop"},
		{"the items of a pop are gone", first("r"), remove, "of its items are missing"},
		{"a part of a pop's item is gone", func(t *testing.T, f *fixture) kv.Pair {
			return f.rows("r")[2] // behind both pops' items
		}, remove, "bytes of its payload are missing"},
		{"a part of a pop's item belongs to no item", func(t *testing.T, f *fixture) kv.Pair { return f.rows("r")[2] },
			rekeyed([]byte("large pop\x00\x14"), []byte("large pop\x00\x15\x01")), "chunk of no item"},
		{"items belong to no pop", first("r"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(bytes.Replace(row.Key, []byte("pop"), []byte("pip"), 1), row.Value)
		}, "of no remembered pop"},
		{"a result is gone", first("re"), remove, "counters are"},
		{"a result is unreadable", first("re"), spoil, "damaged result"},
		{"a result belongs to no queue", first("re"), rekeyed([]byte("\x02w\x00"), []byte("\x02v\x00")), "keeps no results"},
		{"a queue has results that nobody asked for", first("re"), rekeyed([]byte("\x02w\x00"), []byte("\x02r\x00")), "keeps no results"},
		{"a part of a result is gone", first("rx"), remove, "bytes of its payload are missing"},
		{"a part of a result belongs to none", first("rx"), rekeyed([]byte("\x02w\x00"), []byte("\x02q\x00")), "part of no result"},
		{"nothing leads to a result", first("rt"), remove, "is missing"},
		{"a row leads to no result", first("rt"), rekeyed([]byte("w\x00\x15\x03"), []byte("w\x00\x15\x02")), "belongs to no item"},
		{"a row leads to a result of another size", first("rt"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, append(row.Value, 0)) }, "belongs to no item"},
		{"no timer forgets a result", resultTimer, remove, "no timer forgets its results that are kept for 1h0m0s"},
		{"a timer forgets a result too late", resultTimer, func(tx kv.Tx, row kv.Pair) {
			tx.Clear(row.Key)
			r := tuple.Read(row.Key[len(tuple.AppendString(nil, "z")):])
			due := r.Int()
			tx.Set(append(tuple.AppendInt(tuple.AppendString(nil, "z"), due+1), r.Rest()...), row.Value)
		}, "no timer forgets its results"},
		{"the time of a queue's last use is gone", first("eu"), remove, "is missing"},
		{"the time of a queue's last use is unreadable", first("eu"), spoil, "a time of 9 bytes"},
		{"a queue that stays has the time of its last use", first("eu"), rekeyed([]byte("\x02x\x00"), []byte("\x02w\x00")), "does not delete itself"},
		{"the time of a look is gone", first("el"), remove, "is missing"},
		{"the time of a look is another one", first("el"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, tuple.AppendInt(nil, 7)) }, "is missing"},
		{"the time of a look is unreadable", first("el"), spoil, "row \""},
		{"the highest count is too low", first("h"), func(tx kv.Tx, row kv.Pair) { tx.Set(row.Key, kv.EncodeInteger(1)) }, "the highest assigned is 1"},
		{"the state is unreadable", first("q"), spoil, "damaged"},
		{"the place of a delayed item is unreadable", first("d"), rekeyed([]byte("q\x00\x15\x01"), []byte("q\x00\x15\x01\x02x\x00")), "row \""},
		{"the queue is deleted, and its generation is not over", first("q"), func(tx kv.Tx, row kv.Pair) {
			tx.Set(row.Key, bytes.Replace(row.Value, []byte{0x15, 1, 0x15, 1, 0x14}, []byte{0x15, 1, 0x15, 1, 0x15, 2}, 1))
		}, "in the future"},
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
				problems, err := storecheck.Check(t.Context(), f.Store)
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
				if problems, err = storecheck.Check(t.Context(), f.Store); err != nil || !strings.Contains(strings.Join(problems, "\n"), c.want) {
					t.Errorf("Check says %q, %v: expected something about %q", problems, err, c.want)
				}
			})
		})
	}
}

// Check reads all rows, however many there are, and names the first 100 of those that are
// damaged.
func TestCheckOfManyRows(t *testing.T) {
	t.Parallel()
	eachEngine(t, func(t *testing.T, open func() kv.DB) {
		db := open()
		defer db.Close()
		f := newFixture(t, db)
		f.fill("q", 1100, fdbpq.NewItem{})
		problems, err := storecheck.Check(t.Context(), f.Store)
		if err != nil || len(problems) > 0 {
			t.Fatalf("a good store: %q, %v", problems, err)
		}
		err = db.Update(t.Context(), func(tx kv.Tx) error {
			for _, row := range f.rows("i")[:150] {
				tx.Set(row.Key, []byte("\x01\x00\x15\x07"))
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if problems, err = storecheck.Check(t.Context(), f.Store); err != nil || len(problems) != 100 {
			t.Errorf("Check names %d problems, %v: expected 100", len(problems), err)
		}
	})
}
