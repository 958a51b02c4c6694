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

// errSalvage is what becomes of writes to a store that is salvaged.
var errSalvage = errors.New("kv/local: the store is open to be salvaged, nothing can be written")

// Skipped returns how often a read of a salvaged store went around something that
// cannot be read.
func (db *DB) Skipped() uint64 { return db.stats.skipped.Load() }

// skip notes that a read goes around damage. Every other error is the read's.
func (db *DB) skipDamage(err error) error {
	if !errors.Is(err, kv.ErrDamaged) {
		return err
	}
	db.stats.skipped.Add(1)
	return nil
}

// around reads a range of a salvaged store. Where it cannot read, it goes on at
// the next place where it can.
func (t *tx) rangeAroundDamage(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	if opts.Reverse {
		return nil, errSalvage
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
		if err := t.db.skipDamage(err); err != nil {
			return nil, err
		}
		from = t.readableAfter(from, end)
	}
	return pairs, nil
}

// each calls use for the pairs of a range until that has had enough.
func (t *tx) eachPair(begin, end []byte, use func(key, value []byte) (more bool)) error {
	iter, err := t.snap.NewIter(&pebble.IterOptions{UpperBound: end})
	if err != nil {
		return t.db.readError(err)
	}
	for valid := iter.SeekGE(begin); valid; valid = iter.Next() {
		value, err := iter.ValueAndErr()
		if err != nil {
			_ = iter.Close() // it is the same error
			return t.db.readError(err)
		}
		if !use(iter.Key(), value) {
			break
		}
	}
	if err := iter.Close(); err != nil {
		return t.db.readError(err)
	}
	return nil
}

// readableAfter returns a key behind which the range can be read again, though
// not at begin; nil if there is none. Keys that have much in common with begin are
// tried first, as damage mostly is of one block.
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

// bisections bound how closely the end of damage is looked for.
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

// newLogWriter calls record.NewLogWriter, whose type for numbers has no name here.
func newLogWriter[Number ~uint64](construct func(io.Writer, Number, record.LogWriterConfig) *record.LogWriter, w io.Writer, number uint64) *record.LogWriter {
	return construct(w, Number(number), record.LogWriterConfig{
		WriteWALSyncOffsets: func() bool { return false },
		QueueSemChan:        make(chan struct{}, 1),
	})
}

// rest returns a log with all records that can be read of one, those behind
// damage included.
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
		next := c.at-end < chunkHeadNew // no more than padding is between the two
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
