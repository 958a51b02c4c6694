package local

import (
	"bytes"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// tx is one run of a closure. Its first read fixes the state that it reads, so a
// transaction that only writes never conflicts and pins nothing.
type tx struct {
	db       *DB
	term     *Term    // nil unless the store is a replica
	buf      *buffers // nil when the run is over
	snapshot snapshotReader

	// The transaction reads Pebble's snapshot. The snapshot contains all commits up to pinned, none after upper,
	// and possibly some of the few in between. So conflicts are searched after pinned, and durability is awaited up
	// to upper.
	pinned, upper *commit
	snap          *pebble.Snapshot
	iter          *pebble.Iterator
	began         time.Time
	tooOld        bool // a read failed because the transaction is too old

	watches []*watch
	watched map[string][]*watch // by key; nil: there is no watch
}

// buffers is the memory of a transaction, reused by later ones.
type buffers struct {
	reads   readSet
	writes  writeSet
	scratch scratch
	step    func(key []byte) bool // of scratch.steps
}

func newBuffers() any {
	b := new(buffers)
	b.step = b.scratch.steps.step
	return b
}

var errEnded = errors.New("kv/local: the transaction has ended")

// begin begins a transaction; term is nil unless the store is a replica.
func (db *DB) begin(term *Term) *tx {
	t := &tx{db: db, term: term, buf: db.buffers.Get().(*buffers)}
	t.snapshot.t = t
	return t
}

// open fixes the state to read, or checks the age of an open transaction.
func (t *tx) open() error {
	if t.buf == nil {
		return errEnded
	}
	if t.snap != nil {
		return t.checkAge()
	}
	t.began = t.db.opts.Now()
	t.pinned = t.db.applied.Load()
	t.snap = t.db.store.NewSnapshot()
	t.upper = t.db.newest.Load()
	return nil
}

func (t *tx) iterator() (*pebble.Iterator, error) {
	if t.iter == nil {
		iter, err := t.snap.NewIter(&pebble.IterOptions{SkipPoint: t.buf.step})
		if err != nil {
			return nil, t.db.damages.readError(err)
		}
		t.iter = iter
	}
	return t.iter, nil
}

// release releases the state to read.
func (t *tx) release() {
	if t.iter != nil {
		_ = t.iter.Close() // the reads have reported its errors
		t.iter = nil
	}
	if t.snap != nil {
		if err := t.snap.Close(); err != nil {
			t.db.opts.Log.Error("kv/local: releasing a snapshot failed", "err", err)
		}
		t.snap = nil
	}
}

// takeWatches returns the watches, which end with the run no more.
func (t *tx) takeWatches() []*watch {
	taken := t.watches
	t.watches, t.watched = nil, nil
	return taken
}

// end ends the run; watches that no commit has activated end with it.
func (t *tx) end() {
	t.release()
	for _, w := range t.takeWatches() {
		t.db.watches.end(w)
	}
	b := t.buf
	t.buf = nil
	b.reads.reset()
	b.writes.reset()
	b.scratch.reset()
	t.db.buffers.Put(b)
}

func (t *tx) Get(key []byte) ([]byte, error) { return t.get(key, false) }

func (t *tx) GetAll(keys [][]byte) ([][]byte, error) { return t.getAll(keys, false) }

func (t *tx) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return t.readRange(begin, end, opts, false)
}

// Prefetch does nothing: a read is faster than its preparation.
func (t *tx) Prefetch(...[]byte) {}

// PrefetchRange does nothing, either.
func (t *tx) PrefetchRange(_, _ []byte, _ kv.RangeOptions) {}

func (t *tx) Snapshot() kv.Reader { return &t.snapshot }

// snapshotReader reads without making the commit depend on it.
type snapshotReader struct{ t *tx }

func (r *snapshotReader) Get(key []byte) ([]byte, error) { return r.t.get(key, true) }

func (r *snapshotReader) GetAll(keys [][]byte) ([][]byte, error) { return r.t.getAll(keys, true) }

func (r *snapshotReader) Range(begin, end []byte, opts kv.RangeOptions) ([]kv.Pair, error) {
	return r.t.readRange(begin, end, opts, true)
}

func (t *tx) get(key []byte, snapshot bool) ([]byte, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	return t.lookUp(key, snapshot)
}

func (t *tx) getAll(keys [][]byte, snapshot bool) ([][]byte, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	values := make([][]byte, len(keys))
	for i, key := range keys {
		value, err := t.lookUp(key, snapshot)
		if err != nil {
			return nil, err
		}
		values[i] = value
	}
	return values, nil
}

func (t *tx) lookUp(key []byte, snapshot bool) ([]byte, error) {
	if len(key) > kv.MaxKeySize {
		return nil, nil // there cannot be such a key
	}
	key = encodeKey(key)
	hash := hashKey(key)
	w := &t.buf.writes
	own := w.find(hash, key)
	switch {
	case own == nil && w.cleared.contains(key):
		return nil, nil
	case own != nil && own.kind == kindClear:
		return nil, nil
	case own != nil && own.kind == kindSet:
		return append(make([]byte, 0, own.len), w.value(own)...), nil
	}
	if !snapshot {
		t.buf.reads.addKey(hash, key)
	}
	value, err := t.read(hash, key)
	if err != nil || own == nil {
		return value, err
	}
	return kv.EncodeInteger(w.evaluate(own, kv.DecodeInteger(value))), nil
}

// read returns a copy of the value of key in the state that is read, nil if
// there is none.
func (t *tx) read(hash uint64, key []byte) ([]byte, error) {
	rows := &t.db.rows
	if value, ok := rows.get(hash, key, t.pinned.version); ok {
		return append(make([]byte, 0, len(value)), value...), nil
	}
	value, err := valueIn(t.snap, key)
	if err != nil {
		err = t.db.damages.readError(err)
		if t.db.opts.Salvage {
			err = t.db.damages.skip(err)
		}
		return nil, err
	}
	if value != nil {
		rows.put(hash, key, value, t.pinned.version)
	}
	return value, nil
}

// valueIn returns a copy of the value of key in r, nil if there is none.
func valueIn(r pebble.Reader, key []byte) ([]byte, error) {
	value, closer, err := r.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	value = append(make([]byte, 0, len(value)), value...)
	if err := closer.Close(); err != nil {
		return nil, err
	}
	return value, nil
}

func (t *tx) readRange(begin, end []byte, opts kv.RangeOptions, snapshot bool) ([]kv.Pair, error) {
	if err := t.open(); err != nil {
		return nil, err
	}
	if opts.Limit <= 0 {
		return nil, fmt.Errorf("kv/local: limit of a range must be positive, got %d", opts.Limit)
	}
	if bytes.Compare(begin, end) >= 0 {
		return nil, nil
	}
	begin, end = encodeKey(begin), encodeKey(end)
	if t.db.opts.Salvage {
		return t.rangeAroundDamage(begin, end, opts)
	}
	pairs, cut, err := t.scan(begin, end, opts)
	if err != nil || snapshot {
		return pairs, err
	}
	if cut {
		last := encodeKey(pairs[len(pairs)-1].Key)
		if opts.Reverse {
			begin = last
		} else {
			end = keyAfter(last)
		}
	}
	t.buf.reads.addRange(begin, end)
	return pairs, nil
}

func (t *tx) Conflict(key []byte) {
	if len(key) > kv.MaxKeySize {
		return // there cannot be such a key
	}
	// Without an earlier read the commit depends on key's value from now on.
	if t.snap == nil && t.open() != nil {
		return
	}
	key = encodeKey(key)
	t.buf.reads.addKey(hashKey(key), key)
}

func (t *tx) Set(key, value []byte) {
	if t.buf != nil {
		t.buf.writes.set(key, value)
		t.wrote(key)
	}
}

func (t *tx) Clear(key []byte) {
	if t.buf != nil {
		t.buf.writes.clear(key)
		t.wrote(key)
	}
}

func (t *tx) ClearRange(begin, end []byte) {
	if t.buf != nil {
		t.buf.writes.clearRange(begin, end)
		t.clearedRange(begin, end)
	}
}

func (t *tx) Add(key []byte, delta int64) {
	if t.buf != nil {
		t.buf.writes.atomic(key, atomic64{operand: uint64(delta)})
		t.wrote(key)
	}
}

func (t *tx) Max(key []byte, value uint64) {
	if t.buf != nil {
		t.buf.writes.atomic(key, atomic64{max: true, operand: value})
		t.wrote(key)
	}
}

// wrote ends the watches of a key at the commit.
func (t *tx) wrote(key []byte) {
	if t.watched == nil {
		return
	}
	for _, w := range t.watched[string(key)] {
		w.late = true
	}
}

// clearedRange ends the watches of a range of keys at the commit.
func (t *tx) clearedRange(begin, end []byte) {
	for key, watches := range t.watched {
		if key >= string(begin) && key < string(end) {
			for _, w := range watches {
				w.late = true
			}
		}
	}
}

func (t *tx) Watch(key []byte) *kv.Watch {
	w := &watch{key: bytes.Clone(encodeKey(key)), done: make(chan struct{})}
	w.hash = hashKey(w.key)
	if t.buf == nil {
		t.db.watches.end(w)
	} else {
		t.buf.writes.accepts(key)
		t.watches = append(t.watches, w)
		if t.watched == nil {
			t.watched = make(map[string][]*watch)
		}
		t.watched[string(key)] = append(t.watched[string(key)], w)
	}
	watches := &t.db.watches
	return kv.NewWatch(w.done, func() { watches.end(w) }) // not t, which leads to all commits since it began
}

var errTooOld = fmt.Errorf("%w: transaction is older than %v", kv.ErrUnavailable, kv.MaxTxAge)

// checkAge fails if the transaction has read for longer than FoundationDB would allow.
func (t *tx) checkAge() error {
	if t.snap != nil && t.db.opts.Now().Sub(t.began) > kv.MaxTxAge {
		t.tooOld = true
		return errTooOld
	}
	return nil
}
