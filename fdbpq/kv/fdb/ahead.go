//go:build fdb

package fdb

import (
	"bytes"
	"encoding/binary"

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
