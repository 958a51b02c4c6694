package kvtest

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// model is the simplest possible store, with which engines are compared.
type model map[string]string

func newModel(keysAndValues ...string) model {
	m := model{}
	for pair := range slices.Chunk(keysAndValues, 2) {
		m[pair[0]] = pair[1]
	}
	return m
}

func (m model) clone() model { return maps.Clone(m) }

func (m model) apply(writes ...op) {
	for _, o := range writes {
		switch o.kind {
		case opSet:
			m[o.key] = o.value
		case opClear:
			delete(m, o.key)
		case opClearRange:
			for key := range m {
				if o.key <= key && key < o.end {
					delete(m, key)
				}
			}
		case opAdd:
			m[o.key] = integer(m.integer(o.key) + uint64(o.delta))
		case opMax:
			m[o.key] = integer(max(m.integer(o.key), o.max))
		}
	}
}

func (m model) integer(key string) uint64 { return kv.DecodeInteger([]byte(m[key])) }

// rows returns what a Range must return.
func (m model) rows(begin, end string, opts kv.RangeOptions) []kv.Pair {
	keys := slices.Sorted(maps.Keys(m))
	if opts.Reverse {
		slices.Reverse(keys)
	}
	var pairs []kv.Pair
	bytes := 0
	for _, key := range keys {
		if key < begin || key >= end {
			continue
		}
		pairs = append(pairs, kv.Pair{Key: []byte(key), Value: []byte(m[key])})
		bytes += len(key) + len(m[key])
		if len(pairs) == opts.Limit || opts.MaxBytes > 0 && bytes >= opts.MaxBytes {
			break
		}
	}
	return pairs
}

// compareGet returns an error unless r agrees about keys, one by one and
// together.
func (m model) compareGet(r kv.Reader, keys ...string) error {
	var all [][]byte
	for _, key := range keys {
		value, err := r.Get([]byte(key))
		if err != nil {
			return fmt.Errorf("Get(%s): %w", show(key), err)
		}
		if err := m.compareValue(key, value); err != nil {
			return fmt.Errorf("Get(%s): %w", show(key), err)
		}
		all = append(all, []byte(key))
	}
	values, err := r.GetAll(all)
	if err != nil {
		return fmt.Errorf("GetAll: %w", err)
	}
	if len(values) != len(keys) {
		return fmt.Errorf("GetAll of %d keys returned %d values", len(keys), len(values))
	}
	for i, key := range keys {
		if err := m.compareValue(key, values[i]); err != nil {
			return fmt.Errorf("GetAll, value %d, of %s: %w", i, show(key), err)
		}
	}
	return nil
}

func (m model) compareValue(key string, value []byte) error {
	want, present := m[key]
	switch {
	case present && value == nil:
		return fmt.Errorf("got nil, expected %s", show(want))
	case !present && value != nil:
		return fmt.Errorf("got %s, expected nil", show(value))
	case string(value) != want:
		return fmt.Errorf("got %s, expected %s", show(value), show(want))
	}
	return nil
}

// compareRange returns an error unless r agrees about a range.
func (m model) compareRange(r kv.Reader, begin, end string, opts kv.RangeOptions) error {
	got, err := r.Range([]byte(begin), []byte(end), opts)
	call := fmt.Sprintf("Range(%s, %s, %+v)", show(begin), show(end), opts)
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	want := m.rows(begin, end, opts)
	for i := range max(len(got), len(want)) {
		switch {
		case i >= len(got):
			return fmt.Errorf("%s returned %d pairs, expected %d: %s is missing", call, len(got), len(want), show(want[i].Key))
		case i >= len(want):
			return fmt.Errorf("%s returned %d pairs, expected %d: %s is too much", call, len(got), len(want), show(got[i].Key))
		case string(got[i].Key) != string(want[i].Key):
			return fmt.Errorf("%s: pair %d is %s, expected %s", call, i, show(got[i].Key), show(want[i].Key))
		case string(got[i].Value) != string(want[i].Value):
			return fmt.Errorf("%s: value of %s is %s, expected %s", call, show(got[i].Key), show(got[i].Value), show(want[i].Value))
		case got[i].Value == nil:
			return fmt.Errorf("%s: pair %d has a nil value", call, i)
		}
	}
	return nil
}

// compareAll returns an error unless r holds exactly the model's rows, seen
// from both ends.
func (m model) compareAll(r kv.Reader) error {
	for _, reverse := range []bool{false, true} {
		opts := kv.RangeOptions{Limit: math.MaxInt32, Reverse: reverse}
		if err := m.compareRange(r, "", everything, opts); err != nil {
			return err
		}
	}
	return nil
}

// A model is a reader, so the same reads run on it and on a store.

func (m model) Get(key []byte) ([]byte, error) {
	if value, present := m[string(key)]; present {
		return []byte(value), nil
	}
	return nil, nil
}

func (m model) GetAll(keys [][]byte) ([][]byte, error) {
	values := make([][]byte, len(keys))
	for i, key := range keys {
		values[i], _ = m.Get(key)
	}
	return values, nil
}

func (m model) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return m.rows(string(begin), string(end), opts), nil
}
