package kvtest

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// What one transaction reads: its own writes on top of one state.
var readCases = []testCase{
	{name: "EmptyStore", run: testEmptyStore},
	{name: "EmptyValue", run: testEmptyValue},
	{name: "AnyBytes", run: testAnyBytes},
	{name: "GetAll", run: testGetAll},
	{name: "Bounds", run: testBounds},
	{name: "LongRange", run: testLongRange},
	{name: "OwnWrites", run: testOwnWrites},
	{name: "Integers", run: testIntegers},
	{name: "OneState", run: testOneState},
	{name: "OneStateInView", run: testOneStateInView},
	{name: "Newest", run: testNewest},
}

func testEmptyStore(f *fixture) {
	f.expect(model{})
	f.view(func(r kv.Reader) error { return model{}.compareGet(r, "a", "b") })
}

func testEmptyValue(f *fixture) {
	want := newModel("empty", "")
	f.update(func(tx kv.Tx) error {
		tx.Set([]byte("empty"), nil) // no bytes, which is a value nevertheless
		return want.compareGet(tx, "empty", "missing")
	})
	f.view(func(r kv.Reader) error { return want.compareGet(r, "empty", "missing") })
	f.expect(want)

	f.do(set("empty", "full"), set("empty", ""))
	f.expect(want)
	f.do(clearKey("empty"))
	f.expect(model{})
}

// testAnyBytes has keys that sort differently as text, as signed bytes, by
// length, or when a zero byte ends them.
func testAnyBytes(f *fixture) {
	want := newModel(
		"", "the empty key",
		"\x00", "1", "\x00\x00", "2", "\x00\xff", "3", "\x01", "4",
		"a", "5", "a\x00", "6", "a\x00\x00", "7", "a\x00\xff", "8", "a\x01", "9", "a\x7f", "10",
		"a\x80", "11", "a\xff", "12", "a\xff\x00", "13", "a\xff\xff", "14", "aa", "15", "b", "16", "\xfe\xff", "17",
		"value", "\x00\xff\x00\xfe\x80",
	)
	for key, value := range want {
		f.do(set(key, value))
	}
	f.expect(want)
	f.view(func(r kv.Reader) error {
		for key := range want {
			if err := want.compareGet(r, key); err != nil {
				return err
			}
			for _, reverse := range []bool{false, true} {
				opts := kv.RangeOptions{Limit: 100, Reverse: reverse}
				if err := want.compareRange(r, key, everything, opts); err != nil {
					return err
				}
				if err := want.compareRange(r, "", key, opts); err != nil {
					return err
				}
			}
		}
		return nil
	})
	f.do(clearRange("a\x00", "a\xff"))
	want.apply(clearRange("a\x00", "a\xff"))
	f.expect(want)
}

func testGetAll(f *fixture) {
	f.start(set("a", "1"), set("b", "2"), set("d", "4"))
	want := newModel("a", "1", "b", "2", "d", "4")
	orders := [][]string{{}, {"a"}, {"c"}, {"d", "c", "b", "a"}, {"a", "a", "c", "c", "a"}}
	f.view(func(r kv.Reader) error {
		for _, keys := range orders {
			if err := want.compareGet(r, keys...); err != nil {
				return err
			}
		}
		return nil
	})
	f.update(func(tx kv.Tx) error {
		own := want.clone()
		for _, write := range []op{set("c", "3"), clearKey("a"), add("d", 1), raise("e", 9)} {
			write.apply(tx)
			own.apply(write)
			for _, keys := range orders {
				if err := own.compareGet(tx, keys...); err != nil {
					return fmt.Errorf("after %s: %w", write, err)
				}
			}
		}
		return nil
	})
}

// testBounds tries every way to bound a range read, on committed rows alone and
// under own writes.
func testBounds(f *fixture) {
	base := newModel("b", "1", "c", "22", "d", "333", "e", "", "f", strings.Repeat("x", 40), "g", "7")
	for key, value := range base {
		f.do(set(key, value))
	}
	f.view(func(r kv.Reader) error { return compareBounds(base, r) })
	writes := []op{
		set("a", "own"), set("bb", "own"), set("c", "over"), set("h", "own"),
		clearKey("d"), clearRange("e", "f"), set("e", "again"), clearKey("nothing"),
	}
	// A transaction for each step, since a transaction may not grow old. Only the
	// last one takes effect.
	unwanted := errors.New("not to be committed")
	for i := range writes {
		own := base.clone()
		err := f.db.Update(f.ctx, func(tx kv.Tx) error {
			own = base.clone()
			for _, write := range writes[:i+1] {
				write.apply(tx)
				own.apply(write)
			}
			if err := compareBounds(own, tx); err != nil {
				return fmt.Errorf("after %v: %w", writes[:i+1], err)
			}
			if i < len(writes)-1 {
				return unwanted
			}
			return compareBounds(own, tx.Snapshot())
		})
		switch {
		case i == len(writes)-1 && err == nil:
			f.expect(own)
		case err != unwanted:
			f.Fatal(err)
		}
	}
}

func compareBounds(m model, r kv.Reader) error {
	ranges := [][2]string{
		{"", everything}, {"a", "h"}, {"b", "g"}, {"b\x00", "f\x00"}, {"bb", "bb\x00"}, {"c", "e"},
		{"d", "d\x00"}, {"h", everything}, {"x", "y"},
		{"c", "c"}, {"e", "c"}, // nothing is at or after e and before c
	}
	for _, bounds := range ranges {
		for _, reverse := range []bool{false, true} {
			for _, limit := range []int{1, 2, 3, math.MaxInt} {
				for _, maxBytes := range []int{0, 1, 5, math.MaxInt} {
					opts := kv.RangeOptions{Limit: limit, MaxBytes: maxBytes, Reverse: reverse}
					if err := m.compareRange(r, bounds[0], bounds[1], opts); err != nil {
						return err
					}
				}
			}
		}
	}
	return nil
}

// testLongRange reads more than a network engine gets in one answer.
func testLongRange(f *fixture) {
	want := model{}
	var writes []op
	for i := range 600 {
		write := set(fmt.Sprintf("row/%04d", i), strings.Repeat(string(rune('a'+i%26)), 1500))
		writes = append(writes, write)
		want.apply(write)
	}
	f.do(writes...)
	f.expect(want)
	f.update(func(tx kv.Tx) error {
		for _, write := range []op{clearRange("row/0100", "row/0500"), set("row/0250", "back"), set("row/0599", "over")} {
			write.apply(tx)
			want.apply(write)
		}
		return want.compareAll(tx)
	})
	f.expect(want)
}

// testOwnWrites writes one thing on top of the other and compares all reads
// after each step.
func testOwnWrites(f *fixture) {
	base := []op{set("k1", "one"), setInteger("k3", 10), set("k5", "five"), setInteger("k7", 1<<40)}
	steps := map[string][]op{
		"set over sets":             {set("k1", "x"), set("k1", "y"), set("k2", "z"), set("k2", "")},
		"clear and set again":       {clearKey("k1"), clearKey("k1"), set("k1", "x"), clearKey("k1")},
		"clear a range":             {clearRange("k1", "k5")},
		"clear a range of own":      {set("k2", "x"), set("k4", "y"), clearRange("k2", "k5"), set("k3", "z")},
		"clear overlapping ranges":  {clearRange("k1", "k4"), clearRange("k3", "k6"), set("k4", "x"), clearRange("k0", "k2")},
		"clear what is left":        {clearRange("", everything), set("k9", "x"), clearRange("k", "l")},
		"clear nothing":             {clearRange("k2", "k2"), clearRange("k5", "k1"), clearKey("k4")},
		"add to rows":               {add("k3", 1), add("k3", 1), add("k3", -5), add("k7", -(1 << 40))},
		"add to nothing":            {add("k2", 7), add("k4", -1), add("k4", 1)},
		"add to own sets":           {setInteger("k2", 5), add("k2", 5), setInteger("k3", 1), add("k3", 1)},
		"add to what was cleared":   {clearKey("k3"), add("k3", 3), clearRange("k6", "k8"), add("k7", 4)},
		"set over add":              {add("k3", 1), set("k3", "text"), add("k2", 1), clearKey("k2")},
		"clear a range over add":    {add("k3", 1), add("k4", 1), clearRange("k2", "k5"), add("k3", 1)},
		"max of rows":               {raise("k3", 9), raise("k3", 10), raise("k3", 11), raise("k7", 1<<41)},
		"max of nothing":            {raise("k2", 0), raise("k4", 5), raise("k4", 4)},
		"max of what was cleared":   {clearKey("k3"), raise("k3", 2), clearRange("k6", "k8"), raise("k7", 1)},
		"max and add":               {raise("k3", 20), add("k3", 1), raise("k3", 15), add("k3", -20), raise("k3", 3)},
		"max is unsigned":           {add("k2", -1), raise("k2", 5), raise("k4", math.MaxUint64), raise("k4", 1)},
		"overflow wraps":            {raise("k2", math.MaxUint64), add("k2", 1), add("k3", math.MinInt64), add("k3", math.MinInt64)},
		"integers between the rows": {add("k0", 1), raise("k2", 2), add("k4", 3), raise("k6", 4), add("k8", 5)},
	}
	keys := []string{"k0", "k1", "k2", "k3", "k4", "k5", "k6", "k7", "k8", "k9"}
	for name, writes := range steps {
		f.start(base...)
		committed := model{}
		committed.apply(base...)
		var own model
		f.update(func(tx kv.Tx) error {
			own = committed.clone()
			for i, write := range writes {
				write.apply(tx)
				own.apply(write)
				for reader, r := range map[string]kv.Reader{"Tx": tx, "Snapshot": tx.Snapshot()} {
					err := compareEverything(own, r, keys)
					if err != nil {
						return fmt.Errorf("%s, read through %s after %v: %w", name, reader, writes[:i+1], err)
					}
				}
			}
			return nil
		})
		f.view(func(r kv.Reader) error {
			if err := compareEverything(own, r, keys); err != nil {
				return fmt.Errorf("%s, after the commit of %v: %w", name, writes, err)
			}
			return nil
		})
	}
}

// compareEverything compares keys and the ranges between them.
func compareEverything(m model, r kv.Reader, keys []string) error {
	if err := m.compareGet(r, keys...); err != nil {
		return err
	}
	if err := m.compareAll(r); err != nil {
		return err
	}
	for _, key := range keys {
		for _, limit := range []int{1, 100} {
			for _, reverse := range []bool{false, true} {
				opts := kv.RangeOptions{Limit: limit, Reverse: reverse}
				if err := m.compareRange(r, "", key, opts); err != nil {
					return err
				}
				if err := m.compareRange(r, key, everything, opts); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// testIntegers applies Add and Max to rows that are not eight bytes long: they count as DecodeInteger reads them,
// and are eight bytes long afterwards.
func testIntegers(f *fixture) {
	rows := []string{"", "\x05", "\xff\xff\xff", integer(300), "\x01\x00\x00\x00\x00\x00\x00\x00\x07", "\xff\xff\xff\xff\xff\xff\xff\xff\xff"}
	writes := []op{add("k", 1), add("k", -1), raise("k", 0), raise("k", 6), raise("k", 1<<30), raise("k", math.MaxUint64)}
	for _, row := range rows {
		for _, write := range writes {
			want := newModel("k", row)
			want.apply(write)
			f.start(set("k", row))
			f.update(func(tx kv.Tx) error {
				write.apply(tx)
				return want.compareAll(tx)
			})
			f.view(func(r kv.Reader) error {
				if err := want.compareAll(r); err != nil {
					return fmt.Errorf("%s on %s: %w", write, show(row), err)
				}
				return nil
			})

			f.start(set("k", row))
			f.do(write) // without a look in between
			f.expect(want)
		}
	}
}

// testOneState changes rows while a transaction reads them: each of its runs
// must see one state.
func testOneState(f *fixture) {
	f.start(set("a", "old"), set("b", "old"), set("c", "old"))
	runs := 0
	f.update(func(tx kv.Tx) error {
		runs++
		a, err := tx.Get([]byte("a"))
		if err != nil {
			return err
		}
		if runs == 1 {
			err := f.asideDo(set("a", "new"), set("b", "new"), clearRange("c", "c\x00"), set("d", "new"))
			if err != nil {
				return err
			}
		}
		want := newModel("a", "old", "b", "old", "c", "old")
		if string(a) == "new" {
			want = newModel("a", "new", "b", "new", "d", "new")
		}
		for name, r := range map[string]kv.Reader{"Tx": tx, "Snapshot": tx.Snapshot()} {
			if err := compareEverything(want, r, []string{"a", "b", "c", "d"}); err != nil {
				return fmt.Errorf("%s, after a first read of a=%s: %w", name, a, err)
			}
		}
		tx.Set([]byte("e"), []byte("written"))
		return nil
	})
	f.expectRows("a", "new", "b", "new", "d", "new", "e", "written")
}

func testOneStateInView(f *fixture) {
	f.start(set("a", "old"), set("b", "old"))
	runs := 0
	f.view(func(r kv.Reader) error {
		runs++
		a, err := r.Get([]byte("a"))
		if err != nil {
			return err
		}
		if runs == 1 {
			if err := f.asideDo(set("a", "new"), clearKey("b"), set("c", "new")); err != nil {
				return err
			}
		}
		want := newModel("a", "old", "b", "old")
		if string(a) == "new" {
			want = newModel("a", "new", "c", "new")
		}
		return compareEverything(want, r, []string{"a", "b", "c"})
	})
	f.expectRows("a", "new", "c", "new")
}

// testNewest: a transaction reads the writes of all commits that returned before it.
func testNewest(f *fixture) {
	for i := range 100 {
		value := fmt.Sprint(i)
		write := func(tx kv.Tx) error { set("k", value).apply(tx); return nil }
		look := func(r kv.Reader) error {
			got, err := r.Get([]byte("k"))
			if err == nil && !bytes.Equal(got, []byte(value)) {
				err = fmt.Errorf("read %s after %s was committed", show(got), value)
			}
			return err
		}
		err := f.aside(write)
		for errors.Is(err, kv.ErrUnknown) { // a busy store may say so
			err = f.aside(write)
		}
		if err != nil {
			f.Fatal(err)
		}
		f.view(look)
		f.update(func(tx kv.Tx) error { return look(tx) })
	}
}
