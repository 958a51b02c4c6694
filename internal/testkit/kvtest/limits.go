package kvtest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// The limits of a transaction, and that breaking one has no effect.
var limitCases = []testCase{
	{name: "LargestKeyAndValue", run: testLargestKeyAndValue},
	{name: "LargestTransaction", run: testLargestTransaction},
	{name: "TooLarge", run: testTooLarge},
	{name: "RangeNeedsLimit", run: testRangeNeedsLimit},
}

func testLargestKeyAndValue(f *fixture) {
	longKey := strings.Repeat("k", kv.MaxKeySize)
	longNumber := strings.Repeat("n", kv.MaxKeySize)
	longValue := strings.Repeat("v", kv.MaxValueSize)
	writes := []op{set(longKey, "1"), set("k", longValue), add(longNumber, 1), raise(longNumber, 2)}
	f.do(writes...)
	want := model{}
	want.apply(writes...)
	f.expect(want)
	f.view(func(r kv.Reader) error { return want.compareGet(r, "k", longKey, longNumber) })
	f.do(clearKey(longKey), clearRange("k", "k\x00"))
	want.apply(clearKey(longKey), clearKey("k"))
	f.expect(want)
}

// testLargestTransaction stays below the limit by the bytes that engines may count for a write beyond its key and
// value.
func testLargestTransaction(f *fixture) {
	want := model{}
	var writes []op
	for i := range 98 {
		write := set(fmt.Sprintf("row/%02d", i), strings.Repeat("x", kv.MaxValueSize))
		writes = append(writes, write)
		want.apply(write)
	}
	f.do(writes...)
	f.view(func(r kv.Reader) error {
		for key := range want {
			if err := want.compareGet(r, key); err != nil {
				return err
			}
		}
		return nil
	})
	f.do(clearRange("row/", "row0"))
	f.expect(model{})
}

func testTooLarge(f *fixture) {
	longKey := strings.Repeat("k", kv.MaxKeySize+1)
	longValue := strings.Repeat("v", kv.MaxValueSize+1)
	bad := map[string]func(tx kv.Tx){
		"the key of a Set":            func(tx kv.Tx) { set(longKey, "").apply(tx) },
		"the key of a Clear":          func(tx kv.Tx) { clearKey(longKey).apply(tx) },
		"the key of an Add":           func(tx kv.Tx) { add(longKey, 1).apply(tx) },
		"the key of a Max":            func(tx kv.Tx) { raise(longKey, 1).apply(tx) },
		"a value":                     func(tx kv.Tx) { set("a", longValue).apply(tx) },
		"a value that is overwritten": func(tx kv.Tx) { set("a", longValue).apply(tx); set("a", "").apply(tx) },
		"all values": func(tx kv.Tx) {
			for i := range 101 {
				set(fmt.Sprintf("row/%03d", i), longValue[1:]).apply(tx)
			}
		},
		"all keys": func(tx kv.Tx) {
			for i := range 1010 {
				set(fmt.Sprintf("%04d%s", i, longKey[5:]), "").apply(tx)
			}
		},
		"all conflict keys": func(tx kv.Tx) {
			for i := range 1010 {
				tx.Conflict(fmt.Appendf(nil, "%04d%s", i, longKey[5:]))
			}
		},
	}
	f.start(set("a", "before"), setInteger("n", 1))
	want := newModel("a", "before", "n", integer(1))
	for what, write := range bad {
		err := f.db.Update(f.ctx, func(tx kv.Tx) error {
			set("first", "x").apply(tx)
			write(tx)
			set("last", "x").apply(tx)
			clearKey("a").apply(tx)
			add("n", 1).apply(tx)
			return nil
		})
		if !errors.Is(err, kv.ErrTooLarge) {
			f.Errorf("%s too large: Update returned %v, expected ErrTooLarge", what, err)
		}
		f.expect(want)
	}

	// The closure's own error comes first.
	own := errors.New("own")
	err := f.db.Update(f.ctx, func(tx kv.Tx) error {
		set("a", longValue).apply(tx)
		return own
	})
	if err != own {
		f.Errorf("too large, and the closure failed: Update returned %v, expected the closure's error", err)
	}
	f.expect(want)

	// The store is none the worse for it.
	f.do(set("b", "after"))
	want.apply(set("b", "after"))
	f.expect(want)
}

func testRangeNeedsLimit(f *fixture) {
	f.start(set("a", "1"))
	check := func(r kv.Reader) error {
		for _, opts := range []kv.RangeOptions{{}, {Limit: -1}, {Reverse: true}, {MaxBytes: 100}, {Limit: -7, MaxBytes: 1, Reverse: true}} {
			for _, end := range []string{"b", "a", "c"} {
				pairs, err := r.Range([]byte("a"), []byte(end), opts)
				if err == nil {
					return fmt.Errorf("Range(a, %s, %+v) returned %d pairs, expected an error", end, opts, len(pairs))
				}
			}
		}
		return nil
	}
	// An engine may let such a mistake spoil the transaction.
	f.view(check)
	var result error
	err := f.db.Update(f.ctx, func(tx kv.Tx) error {
		if result = check(tx); result == nil {
			result = check(tx.Snapshot())
		}
		return errors.New("seen enough")
	})
	if result != nil {
		f.Errorf("in Update: %v", result)
	}
	if err == nil {
		f.Errorf("Update lost the closure's error")
	}
	f.expectRows("a", "1")
}
