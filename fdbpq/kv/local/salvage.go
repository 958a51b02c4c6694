package local

import (
	"bytes"
	"errors"
	"math/big"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// errReadOnly: the store is open for reads alone.
var errReadOnly = errors.New("kv/local: the store is open read-only")

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
