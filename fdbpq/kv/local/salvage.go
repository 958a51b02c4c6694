package local

import (
	"bytes"
	"errors"
	"io"
	"math/big"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// errReadOnly: the store is open for reads alone.
var errReadOnly = errors.New("kv/local: the store is open read-only")

// Skipped returns how often reads of a salvaged store skipped damage.
func (db *DB) Skipped() uint64 { return db.damages.skipped.Load() }

// skip counts damage that a read skips. It returns any other error.
func (s *damages) skip(err error) error {
	if !errors.Is(err, kv.ErrDamaged) {
		return err
	}
	s.skipped.Add(1)
	return nil
}

// rangeAroundDamage reads a range of a salvaged store, and continues after damage where
// it can read again.
func (t *tx) rangeAroundDamage(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	if opts.Reverse {
		return nil, errReadOnly
	}
	var pairs []kv.Pair
	size := 0
	for from := begin; from != nil; {
		err := t.eachPair(from, end, func(key, value []byte) (more bool) {
			from = keyAfter(key)
			pairs = append(pairs, kv.Pair{Key: bytes.Clone(decodeKey(key)), Value: append([]byte{}, value...)})
			size += len(key) + len(value)
			return len(pairs) < opts.Limit && (opts.MaxBytes == 0 || size < opts.MaxBytes)
		})
		if err == nil {
			break
		}
		if err := t.db.damages.skip(err); err != nil {
			return nil, err
		}
		from = t.readableAfter(from, end)
	}
	return pairs, nil
}

// eachPair calls use for the pairs of a range as long as it returns true.
func (t *tx) eachPair(begin, end []byte, use func(key, value []byte) (more bool)) error {
	iter, err := t.snap.NewIter(&pebble.IterOptions{UpperBound: end})
	if err != nil {
		return t.db.damages.readError(err)
	}
	for valid := iter.SeekGE(begin); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			_ = iter.Close() // the reads have reported its error
			return t.db.damages.readError(err)
		}
		if !use(iter.Key(), value) {
			break
		}
	}
	if err := iter.Close(); err != nil {
		return t.db.damages.readError(err)
	}
	return nil
}

// readableAfter returns a key after begin from which the range can be read again; nil if there is none. It first
// tries keys that share a long prefix with begin, since damage usually concerns one block.
func (t *tx) readableAfter(begin, end []byte) []byte {
	readable := func(key []byte) bool {
		return t.eachPair(key, end, func([]byte, []byte) bool { return false }) == nil
	}
	bad := begin
	for n := len(begin) - 1; n >= 0; n-- {
		good := prefixEnd(begin[:n+1])
		if good == nil || bytes.Compare(good, end) >= 0 {
			break
		}
		if !readable(good) {
			bad = good
			continue
		}
		for range bisections {
			middle := between(bad, good)
			if middle == nil {
				break
			}
			if readable(middle) {
				good = middle
			} else {
				bad = middle
			}
		}
		return good
	}
	return nil
}

// bisections bounds the search for the end of damage.
const bisections = 40

// prefixEnd returns the first key behind all that begin with prefix, nil if there
// is none.
func prefixEnd(prefix []byte) []byte {
	for n := len(prefix); n > 0; n-- {
		if prefix[n-1] != 0xff {
			after := bytes.Clone(prefix[:n])
			after[n-1]++
			return after
		}
	}
	return nil
}

// between returns a key halfway between two, nil if they are too close.
func between(low, high []byte) []byte {
	size := max(len(low), len(high)) + 1
	number := func(key []byte) *big.Int {
		padded := make([]byte, size)
		copy(padded, key)
		return new(big.Int).SetBytes(padded)
	}
	a, b := number(low), number(high)
	middle := a.Rsh(a.Add(a, b), 1).FillBytes(make([]byte, size))
	if bytes.Compare(middle, low) <= 0 || bytes.Compare(middle, high) >= 0 {
		return nil
	}
	return bytes.TrimRight(middle, "\x00")
}

// newLogWriter calls record.NewLogWriter, whose number type is internal to Pebble.
func newLogWriter[Number ~uint64](construct func(io.Writer, Number, record.LogWriterConfig) *record.LogWriter, w io.Writer, number uint64) *record.LogWriter {
	return construct(w, Number(number), record.LogWriterConfig{
		WriteWALSyncOffsets: func() bool { return false },
		QueueSemChan:        make(chan struct{}, 1),
	})
}

// readableLog returns a copy of a log with all readable records, those after damage included.
func (d *logDisk) readableLog(name string, number uint64) (vfs.File, error) {
	memory := vfs.NewMem()
	f, err := memory.Create("rest", vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	w := newLogWriter(record.NewLogWriter, f, number)
	var whole []byte
	var writing error
	open, end := false, int64(0)
	_, err = d.scanFile(name, true, number, func(c chunk) {
		next := c.at-end < chunkHeadNew // only padding lies between the two
		if open = c.first || open && next; !open {
			return
		}
		if c.first {
			whole = whole[:0]
		}
		whole, end = append(whole, c.content...), c.end
		if c.last {
			open = false
			if _, err := w.WriteRecord(whole); err != nil {
				writing = err
			}
		}
	})
	if err := errors.Join(err, writing, w.Close()); err != nil {
		return nil, err
	}
	return memory.Open("rest")
}
