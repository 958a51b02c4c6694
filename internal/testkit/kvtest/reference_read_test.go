package kvtest

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func (tx *referenceTx) value(key string) []byte {
	rows := tx.state()
	if tx.is(blindToOwnGets) {
		rows = tx.committed
	}
	i, found := find(rows, key)
	if !found {
		return nil
	}
	if tx.is(emptyIsNil) && rows[i].value == "" {
		return nil
	}
	return []byte(rows[i].value)
}

func (tx *referenceTx) Get(key []byte) ([]byte, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	if !tx.is(getDoesNotConflict) {
		tx.depend(keySpan(string(key)))
	}
	return tx.value(string(key)), nil
}

func (tx *referenceTx) GetAll(keys [][]byte) ([][]byte, error) {
	if err := tx.read(); err != nil {
		return nil, err
	}
	var values [][]byte
	for _, key := range keys {
		if !tx.is(getAllDoesNotConflict) {
			tx.depend(keySpan(string(key)))
		}
		values = append(values, tx.value(string(key)))
	}
	if tx.is(getAllSorts) {
		slices.SortFunc(values, bytes.Compare)
	}
	return values, nil
}

func (tx *referenceTx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	if opts.Limit <= 0 && tx.is(zeroIsNoLimit) {
		opts.Limit = 1 << 30
	}
	if opts.Limit <= 0 {
		return nil, fmt.Errorf("range limit is %d, expected a positive number", opts.Limit)
	}
	if err := tx.read(); err != nil {
		return nil, err
	}
	rows := tx.state()
	if tx.is(blindToOwnRanges) || tx.is(blindSnapshots) && tx.snapshot {
		rows = tx.committed
	}
	i, j := between(rows, string(begin), string(end))
	seen := span{string(begin), string(end)}
	var pairs []kv.Pair
	size := 0
	for i < j {
		var row referenceRow
		if opts.Reverse && !tx.is(ignoresReverse) {
			j--
			row = rows[j]
		} else {
			row = rows[i]
			i++
		}
		pairs = append(pairs, kv.Pair{Key: []byte(row.key), Value: []byte(row.value)})
		size += len(row.key) + len(row.value)
		full := len(pairs) == opts.Limit
		if opts.MaxBytes > 0 && !tx.is(ignoresMaxBytes) {
			full = full || size >= opts.MaxBytes
		}
		if !full {
			continue
		}
		last := keySpan(row.key)
		switch {
		case tx.is(limitConflictsWithAll):
		case opts.Reverse != tx.is(reverseConflictsAhead):
			seen.begin = last.begin
		default:
			seen.end = last.end
		}
		break
	}
	if tx.is(phantoms) {
		for _, pair := range pairs {
			tx.depend(keySpan(string(pair.Key)))
		}
	} else if seen.begin < seen.end {
		tx.depend(seen)
	}
	if tx.is(sharesSlices) {
		all := make([]byte, 0, 4096)
		for i, pair := range pairs {
			if len(pair.Key)+len(pair.Value) < cap(all)-len(all) {
				k, v := len(all), len(all)+len(pair.Key)
				all = append(append(all, pair.Key...), pair.Value...)
				pairs[i] = kv.Pair{Key: all[k:v], Value: all[v:]}
			}
		}
	}
	return pairs, nil
}

func (tx *referenceTx) Snapshot() kv.Reader { return &snapshotOf{tx} }

// snapshotOf reads through a transaction without consequences for it.
type snapshotOf struct{ tx *referenceTx }

func (s *snapshotOf) Get(key []byte) ([]byte, error) {
	s.tx.snapshot = true
	defer func() { s.tx.snapshot = false }()
	return s.tx.Get(key)
}

func (s *snapshotOf) GetAll(keys [][]byte) ([][]byte, error) {
	s.tx.snapshot = true
	defer func() { s.tx.snapshot = false }()
	return s.tx.GetAll(keys)
}

func (s *snapshotOf) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	s.tx.snapshot = true
	defer func() { s.tx.snapshot = false }()
	return s.tx.Range(begin, end, opts)
}
