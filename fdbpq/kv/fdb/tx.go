//go:build fdb

package fdb

import (
	"bytes"
	"errors"
	"fmt"
	"math"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// errEnded: the transaction was used after its closure returned.
var errEnded = errors.New("kv/fdb: transaction used after its closure returned")

// tx is one run of a closure. It adds the store's prefix to keys for the library and
// removes it from the library's keys, which keeps their order.
type tx struct {
	run      *run
	snapshot snapshotReader
	failure  *failure // the first call to the store that failed
	refused  error    // the first write that broke a limit
	begun    bool     // the state to read is certainly fixed
	writes   bool
	watches  []*watch
	ended    bool
	ahead    ahead
	key1     []byte // buffers for keys: the library copies them
	key2     []byte
}

func newTx(r *run) *tx {
	t := &tx{run: r}
	t.snapshot.t = t
	return t
}

// usable returns an error when the transaction can only fail. After a refused write no
// read would be correct.
func (t *tx) usable() error {
	switch {
	case t.ended:
		return errEnded
	case t.failure != nil:
		return unavailable(t.failure.err)
	}
	return t.refused
}

// fail records the first failed call, which decides how the run ends, and returns the
// closure's error.
func (t *tx) fail(err error) error {
	if t.failure == nil {
		t.failure = &failure{err, reading}
	}
	return unavailable(err)
}

// commit ends the run, unless it leaves a failure.
func (t *tx) commit() error {
	if t.refused != nil {
		return t.refused
	}
	if !t.writes && len(t.watches) == 0 {
		return nil // all of its reads are of one version
	}
	aside, err := t.setWatches()
	if aside != nil {
		defer aside.end()
	}
	if err != nil {
		t.fail(err)
		return nil
	}
	if t.failure = t.run.commit(); t.failure != nil {
		if !t.writes {
			t.failure.at = reading // there was nothing to send
		}
		return nil
	}
	t.run.db.commits.Add(1)
	if aside != nil {
		_ = aside.commit() // if it fails, its watches end
	}
	return nil
}

// setWatches sets the watches, and returns the transaction that has to commit
// behind this one for them to become active, if there is one.
func (t *tx) setWatches() (aside *run, err error) {
	if t.writes && len(t.watches) > 0 {
		return t.watchAside()
	}
	for _, w := range t.watches {
		if err := t.watch(w); err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (t *tx) prefixed(buffer *[]byte, key []byte) apple.Key {
	*buffer = append(append((*buffer)[:0], t.run.db.prefix...), key...)
	return *buffer
}

// bounds returns a range with the prefix in front of its keys, and false if the range is empty. Without a prefix it
// ends where FoundationDB's own keys begin.
func (t *tx) bounds(begin, end []byte) (apple.KeyRange, bool) {
	if len(t.run.db.prefix) == 0 && len(end) > 0 && end[0] == 0xff {
		end = []byte{0xff}
	}
	if bytes.Compare(begin, end) >= 0 {
		return apple.KeyRange{}, false
	}
	return apple.KeyRange{Begin: t.prefixed(&t.key1, begin), End: t.prefixed(&t.key2, end)}, true
}

// snapshotReader reads without making the commit depend on it.
type snapshotReader struct{ t *tx }

func (r *snapshotReader) Get(key []byte) ([]byte, error) { return r.t.get(key, true) }

func (r *snapshotReader) GetAll(keys [][]byte) ([][]byte, error) { return r.t.getAll(keys, true) }

func (r *snapshotReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return r.t.readRange(begin, end, opts, true)
}

func (t *tx) Snapshot() kv.Reader { return &t.snapshot }

func (t *tx) Get(key []byte) ([]byte, error) { return t.get(key, false) }

func (t *tx) GetAll(keys [][]byte) ([][]byte, error) { return t.getAll(keys, false) }

func (t *tx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return t.readRange(begin, end, opts, false)
}

func (t *tx) get(key []byte, snapshot bool) ([]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	value, known, err := t.known(key, snapshot)
	if err != nil {
		return nil, t.fail(err)
	}
	if known {
		return value, nil
	}
	future, err := t.beginGet(key, snapshot)
	if err != nil {
		return nil, t.fail(err)
	}
	if value, err = future.Get(); err != nil {
		return nil, t.fail(err)
	}
	return value, nil
}

// beginGet asks for a value without waiting for it.
func (t *tx) beginGet(key []byte, snapshot bool) (apple.FutureByteSlice, error) {
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return nil, errAbandoned
	}
	if snapshot {
		return r.tr.Snapshot().Get(t.prefixed(&t.key1, key)), nil
	}
	return r.tr.Get(t.prefixed(&t.key1, key)), nil
}

func (t *tx) getAll(keys [][]byte, snapshot bool) ([][]byte, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	futures := make([]apple.FutureByteSlice, len(keys)) // nil: the value is known
	for i, key := range keys {
		if t.ahead.rows[string(key)] != nil {
			continue // its read may have to be waited for
		}
		future, err := t.beginGet(key, snapshot)
		if err != nil {
			return nil, t.fail(err)
		}
		futures[i] = future
	}
	for i, future := range futures {
		var err error
		if future != nil {
			values[i], err = future.Get()
		} else {
			values[i], err = t.get(keys[i], snapshot)
		}
		if err != nil {
			return nil, t.fail(err)
		}
	}
	return values, nil
}

// readRange reads by snapshot and adds the read conflict itself. The library would add
// everything that it fetched, which is more than was read when MaxBytes ends a read.
func (t *tx) readRange(begin, end []byte, opts kv.RangeOptions, snapshot bool) ([]kv.Pair, error) {
	if err := t.usable(); err != nil {
		return nil, err
	}
	if opts.Limit <= 0 {
		return nil, fmt.Errorf("kv/fdb: limit of a range must be positive, got %d", opts.Limit)
	}
	bounds, ok := t.bounds(begin, end)
	if !ok {
		return nil, nil
	}
	rows, cut, err := t.fetch(bounds, opts)
	if err != nil {
		return nil, t.fail(err)
	}
	if !snapshot {
		if cut {
			last := rows[len(rows)-1].Key
			if opts.Reverse {
				bounds.Begin = last
			} else {
				bounds.End = append(last[:len(last):len(last)], 0)
			}
		}
		if err := t.run.tr.AddReadConflictRange(bounds); err != nil {
			return nil, t.fail(err)
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	pairs := make([]kv.Pair, len(rows))
	for i, row := range rows {
		pairs[i] = kv.Pair{Key: row.Key[len(t.run.db.prefix):], Value: row.Value}
	}
	return pairs, nil
}

// fetch reads rows by snapshot, and reports whether a bound cut the read short.
func (t *tx) fetch(bounds apple.KeyRange, opts kv.RangeOptions) (rows []apple.KeyValue, cut bool, err error) {
	options := rangeOptions(opts)
	limit := options.Limit
	result, known := t.ahead.ranges.take(t.unprefixed(bounds.Begin), t.unprefixed(bounds.End), opts)
	if !known {
		if result, err = t.beginRange(bounds, options); err != nil {
			return nil, false, err
		}
	}
	if opts.MaxBytes <= 0 {
		rows, err = result.GetSliceWithError()
		return rows, len(rows) == limit, err
	}
	size := 0
	for it := result.Iterator(); it.Advance(); {
		row, err := it.Get()
		if err != nil {
			return nil, false, err
		}
		rows = append(rows, row)
		size += len(row.Key) - len(t.run.db.prefix) + len(row.Value)
		if len(rows) == limit || size >= opts.MaxBytes {
			return rows, true, nil
		}
	}
	return rows, false, nil
}

// rangeOptions returns the library's options for the read of a range.
func rangeOptions(opts kv.RangeOptions) apple.RangeOptions {
	options := apple.RangeOptions{
		Limit:   min(opts.Limit, math.MaxInt32), // the library's limits have 32 bits
		Reverse: opts.Reverse,
		Mode:    apple.StreamingModeExact,
	}
	if opts.MaxBytes > 0 {
		// The library reads as much as a storage server returns at once.
		options.Mode = apple.StreamingModeSerial
	}
	return options
}

func (t *tx) beginRange(bounds apple.KeyRange, options apple.RangeOptions) (apple.RangeResult, error) {
	r := t.run
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.dead {
		return apple.RangeResult{}, errAbandoned
	}
	return r.tr.Snapshot().GetRange(bounds, options), nil
}

func (t *tx) Conflict(key []byte) {
	if t.usable() != nil {
		return
	}
	if err := t.begin(); err != nil {
		t.fail(err)
		return
	}
	if err := t.run.tr.AddReadConflictKey(t.prefixed(&t.key1, key)); err != nil {
		t.fail(err)
	}
}

// begin fixes the state that the transaction reads. Without it, a transaction that has read nothing would fix its
// state at the commit, and miss changes until then.
func (t *tx) begin() error {
	if t.begun {
		return nil
	}
	t.begun = true
	_, err := t.version()
	return err
}

// version returns the version of the state that the transaction reads.
func (t *tx) version() (int64, error) {
	r := t.run
	r.mu.Lock()
	if r.dead {
		r.mu.Unlock()
		return 0, errAbandoned
	}
	future := r.tr.GetReadVersion()
	r.mu.Unlock()
	return future.Get()
}

// accepts notes a write of key and value, and reports whether it is within the limits. The library would
// report a write that is too large only with the next read.
func (t *tx) accepts(key, value []byte) bool {
	switch {
	case t.usable() != nil:
		return false
	case len(t.run.db.prefix)+len(key) > kv.MaxKeySize:
		t.refused = fmt.Errorf("%w: a key has %d bytes with its prefix, at most %d are allowed", kv.ErrTooLarge, len(t.run.db.prefix)+len(key), kv.MaxKeySize)
		return false
	case len(value) > kv.MaxValueSize:
		t.refused = fmt.Errorf("%w: a value has %d bytes, at most %d are allowed", kv.ErrTooLarge, len(value), kv.MaxValueSize)
		return false
	}
	t.writes = true
	t.wrote(key)
	return true
}

func (t *tx) Set(key, value []byte) {
	if t.accepts(key, value) {
		t.ahead.wrote(key)
		t.run.tr.Set(t.prefixed(&t.key1, key), value)
	}
}

func (t *tx) Clear(key []byte) {
	if t.accepts(key, nil) {
		t.ahead.wrote(key)
		t.run.tr.Clear(t.prefixed(&t.key1, key))
	}
}

func (t *tx) ClearRange(begin, end []byte) {
	if t.usable() != nil {
		return
	}
	if bounds, ok := t.bounds(begin, end); ok {
		t.writes = true
		t.cleared(begin, end)
		t.ahead.cleared(begin, end)
		t.run.tr.ClearRange(bounds)
	}
}

func (t *tx) Add(key []byte, delta int64) {
	if t.accepts(key, nil) {
		t.ahead.add(key, uint64(delta))
		t.run.tr.Add(t.prefixed(&t.key1, key), littleEndian(uint64(delta)))
	}
}

func (t *tx) Max(key []byte, value uint64) {
	if t.accepts(key, nil) {
		t.ahead.wrote(key)
		t.run.tr.Max(t.prefixed(&t.key1, key), littleEndian(value))
	}
}
