package kvtest

import (
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A cleared range counts as a change of all its rows, even of more rows than an engine
// would note one by one.
var wideRangeCases = []testCase{
	{name: "WideRangeConflicts", run: testWideRangeConflicts},
	{name: "WideRangeAndOldReads", run: testWideRangeAndOldReads},
	{name: "WideRangeAndWatches", run: testWideRangeAndWatches},
	{name: "WideRangeAndCounters", run: testWideRangeAndCounters},
	{name: "WideRangeAndNewRows", run: testWideRangeAndNewRows},
}

const wideRows = 200

var clearWide = clearRange("w/", "w0")

// fillWide starts with all rows of the wide range.
func (f *fixture) fillWide() {
	var fill []op
	for i := range wideRows {
		fill = append(fill, set(fmt.Sprintf("w/%04d", i), "x"))
	}
	f.start(fill...)
}

func expectWide(r kv.Reader, want int) error {
	pairs, err := r.Range([]byte("w/"), []byte("w0"), kv.RangeOptions{Limit: 2 * wideRows})
	if err == nil && len(pairs) != want {
		return fmt.Errorf("the range has %d rows, expected %d", len(pairs), want)
	}
	return err
}

func testWideRangeConflicts(f *fixture) {
	write := func(tx kv.Tx) error { tx.Set([]byte("own"), nil); return nil }
	for _, look := range []struct {
		name string
		do   func(kv.Tx) error
	}{
		{"Get", get("w/0100")},
		{"GetAll", on(func(r kv.Reader) error { _, err := r.GetAll([][]byte{[]byte("a"), []byte("w/0199")}); return err })},
		{"Conflict", func(tx kv.Tx) error { tx.Conflict([]byte("w/0000")); return nil }},
		{"Range", on(func(r kv.Reader) error {
			_, err := r.Range([]byte("w/0050"), []byte("w/0052"), kv.RangeOptions{Limit: 10})
			return err
		})},
	} {
		f.fillWide()
		if runs := f.interleave(look.do, func() error { return f.asideDo(clearWide) }, write); runs < 2 {
			f.Errorf("%s of a row that a wide range cleared meanwhile: the closure was not rerun", look.name)
		}
	}
}

// testWideRangeAndOldReads: a transaction that reads an older state finds the rows, whatever the engine has cached
// of the newer state.
func testWideRangeAndOldReads(f *fixture) {
	f.fillWide()
	ran := false
	f.update(func(tx kv.Tx) error {
		if ran { // the rows are gone by now
			return nil
		}
		ran = true
		old := tx.Snapshot()
		if _, err := old.Get([]byte("w/0000")); err != nil {
			return err
		}
		if err := f.asideDo(clearWide); err != nil {
			return err
		}
		for range 3 {
			if err := f.aside(func(tx kv.Tx) error { return expectWide(tx, 0) }); err != nil {
				return err
			}
		}
		return expectWide(old, wideRows)
	})
}

func testWideRangeAndWatches(f *fixture) {
	f.fillWide()
	w, _ := f.watch("w/0100")
	f.do(clearWide)
	f.await(w.Done(), "the watch of a row that a wide range cleared")
	w.Cancel()
}

// testWideRangeAndCounters: a cleared counter begins again.
func testWideRangeAndCounters(f *fixture) {
	f.fillWide()
	f.do(add("w/count", 5))
	f.do(clearWide)
	f.do(add("w/count", 1))
	f.expectRows("w/count", integer(1))
}

// testWideRangeAndNewRows: a row that another transaction sets before the clear commits
// is cleared too.
func testWideRangeAndNewRows(f *fixture) {
	f.fillWide()
	f.update(func(tx kv.Tx) error {
		if _, err := tx.Snapshot().Get([]byte("anchor")); err != nil {
			return err
		}
		clearWide.apply(tx)
		return f.asideDo(set("w/0100/new", "x"))
	})
	f.expect(model{})
}
