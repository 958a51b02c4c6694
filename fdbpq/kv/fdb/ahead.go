//go:build fdb

package fdb

import (
	"bytes"
	"encoding/binary"
	"slices"
	"sort"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// ahead has the reads of a transaction that began before the transaction asked for their values. Each call to the
// library is a way to its network thread and back, so a value that has come is not asked for again. When the
// transaction writes a row, ahead forgets the reads of that row, or, for a sum, adds to what was read.
type ahead struct {
	rows   map[string]*aheadRow
	ranges aheadRanges
}

// aheadRow is a row whose read has begun.
type aheadRow struct {
	future apple.FutureByteSlice
	added  int64 // the sum of what the transaction has added since
	sum    bool  // it has added something
}

// row returns the value of a row, if it was asked for before.
func (a *ahead) row(key []byte) (value []byte, known bool, err error) {
	r := a.rows[string(key)]
	if r == nil {
		return nil, false, nil
	}
	if value, err = r.future.Get(); err != nil {
		return nil, true, err
	}
	if !r.sum {
		return bytes.Clone(value), true, nil
	}
	if value != nil && len(value) != 8 {
		return nil, false, nil
	}
	return kv.EncodeInteger(kv.DecodeInteger(value) + uint64(r.added)), true, nil
}

// wrote forgets a row, and the ranges that it is in.
func (a *ahead) wrote(key []byte) {
	if len(a.rows) > 0 {
		delete(a.rows, string(key))
	}
	a.ranges.forget(key, key)
}

// add adds to a row.
func (a *ahead) add(key []byte, operand uint64) {
	if r := a.rows[string(key)]; r != nil {
		r.added, r.sum = r.added+int64(operand), true
	}
	a.ranges.forget(key, key)
}

// cleared forgets the reads of rows and ranges that a cleared range touches.
func (a *ahead) cleared(begin, end []byte) {
	for key := range a.rows {
		if key >= string(begin) && key < string(end) {
			delete(a.rows, key)
		}
	}
	a.ranges.forget(begin, end)
}

// Prefetch starts to read keys.
func (t *tx) Prefetch(keys ...[]byte) {
	if t.usable() != nil {
		return
	}
	for _, key := range keys {
		if t.ahead.rows[string(key)] != nil {
			continue
		}
		future, err := t.beginGet(key, true)
		if err != nil {
			return // the read returns the error
		}
		if t.ahead.rows == nil {
			t.ahead.rows = make(map[string]*aheadRow)
		}
		t.ahead.rows[string(key)] = &aheadRow{future: future}
	}
}

// PrefetchRange starts to read a range.
func (t *tx) PrefetchRange(begin, end []byte, opts kv.RangeOptions) {
	if t.usable() != nil || opts.Limit <= 0 {
		return
	}
	bounds, ok := t.bounds(begin, end)
	if !ok {
		return
	}
	result, err := t.beginRange(bounds, rangeOptions(opts))
	if err != nil {
		return // the read returns the error
	}
	t.ahead.ranges.add(&aheadRange{begin: bytes.Clone(t.unprefixed(bounds.Begin)), end: bytes.Clone(t.unprefixed(bounds.End)), opts: opts, result: result})
}

// unprefixed returns the store's key for a key of the library.
func (t *tx) unprefixed(key apple.KeyConvertible) []byte { return key.FDBKey()[len(t.run.db.prefix):] }

// known returns a value that was prefetched, and makes the commit depend on it as a read does.
func (t *tx) known(key []byte, snapshot bool) (value []byte, known bool, err error) {
	value, known, err = t.ahead.row(key)
	if err == nil && known && !snapshot {
		err = t.run.tr.AddReadConflictKey(t.prefixed(&t.key1, key))
	}
	return value, known, err
}

func littleEndian(operand uint64) []byte { return binary.LittleEndian.AppendUint64(nil, operand) }

// aheadRange is a range whose read has begun.
type aheadRange struct {
	begin, end []byte
	opts       kv.RangeOptions
	result     apple.RangeResult

	gone  bool   // it was taken, or a write has changed it
	reach []byte // the furthest end of this range and of all ranges in front of it
}

// aheadRanges are the ranges whose reads have begun. A batch may have some ranges for each of its requests, and
// each read and write of the transaction looks for the ranges that it touches.
type aheadRanges struct {
	all     []*aheadRange // by their begin, once they are ordered
	ordered bool
}

func (a *aheadRanges) add(r *aheadRange) {
	a.all, a.ordered = append(a.all, r), false
}

// order sorts the ranges by their begin.
func (a *aheadRanges) order() {
	a.ordered = true
	a.all = slices.DeleteFunc(a.all, func(r *aheadRange) bool { return r.gone })
	slices.SortFunc(a.all, func(r, other *aheadRange) int { return bytes.Compare(r.begin, other.begin) })
	var reach []byte
	for _, r := range a.all {
		if bytes.Compare(r.end, reach) > 0 {
			reach = r.end
		}
		r.reach = reach
	}
}

// near returns the ranges that have keys from first to last, and maybe others. If no ranges overlap, there are no
// others.
func (a *aheadRanges) near(first, last []byte) []*aheadRange {
	if len(a.all) == 0 {
		return nil
	}
	if !a.ordered {
		a.order()
	}
	from := sort.Search(len(a.all), func(i int) bool { return bytes.Compare(a.all[i].reach, first) > 0 })
	to := sort.Search(len(a.all), func(i int) bool { return bytes.Compare(a.all[i].begin, last) > 0 })
	return a.all[from:max(from, to)]
}

// take returns the result of a read of the same range with the same options, if one has begun. Each result is given
// once.
func (a *aheadRanges) take(begin, end []byte, opts kv.RangeOptions) (apple.RangeResult, bool) {
	for _, r := range a.near(begin, begin) {
		if !r.gone && r.opts == opts && bytes.Equal(r.begin, begin) && bytes.Equal(r.end, end) {
			r.gone = true
			return r.result, true
		}
	}
	return apple.RangeResult{}, false
}

// forget forgets the ranges that have keys from first to last.
func (a *aheadRanges) forget(first, last []byte) {
	for _, r := range a.near(first, last) {
		r.gone = r.gone || bytes.Compare(r.end, first) > 0
	}
}
