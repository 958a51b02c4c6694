package kvtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// reference is the plainest engine that keeps the contract: every commit leaves
// a new sorted list of rows, and a transaction copies the list when it writes.
// One flaw may be built in, to see whether the suite finds it.
type reference struct {
	flaw  flaw
	seed  uint64
	under sync.WaitGroup // transactions
	now   atomic.Int64   // time.Duration, by which transactions age

	mu       sync.Mutex
	closed   bool
	versions []version
	watches  map[*referenceWatch]bool

	syncing sync.Mutex
	synced  atomic.Int64 // the last version that survives a power loss
}

// version is the state after a commit.
type version struct {
	rows   []referenceRow // sorted; never changed
	half   []referenceRow // the state when half of the commit's writes were made
	writes []span
}

type referenceRow struct{ key, value string }

type span struct{ begin, end string }

func (s span) overlaps(o span) bool { return s.begin < o.end && o.begin < s.end }

func keySpan(key string) span { return span{key, key + "\x00"} }

func newReference(flaw flaw, seed uint64) *reference {
	db := &reference{flaw: flaw, seed: seed, versions: []version{{}}, watches: map[*referenceWatch]bool{}}
	db.now.Store(1)
	return db
}

func (db *reference) Update(ctx context.Context, fn func(kv.Tx) error) error {
	for {
		tx, err := db.begin(ctx)
		if err != nil {
			return err
		}
		again, err := db.attempt(tx, fn)
		if err != nil && db.flaw == wrapsOwnError {
			err = fmt.Errorf("update: %w", err)
		}
		db.under.Done()
		if !again {
			return err
		}
	}
}

func (db *reference) attempt(tx *referenceTx, fn func(kv.Tx) error) (again bool, err error) {
	err = fn(tx)
	if tx.tooOld || err == nil && tx.old() != nil {
		tx.endWatches()
		return true, nil
	}
	if err == nil {
		err = tx.tooLarge()
	}
	if err != nil {
		if db.flaw == commitsFailed {
			tx.commit()
		}
		if db.flaw != failedWatchStays {
			tx.endWatches()
		}
		if db.flaw != errorsBeforeSync {
			db.sync(tx.base)
		}
		return db.flaw == rerunsFailed && errors.Is(err, kv.ErrUnavailable), err
	}
	if !tx.commit() {
		if db.flaw != rerunWatchStays {
			tx.endWatches()
		}
		return true, nil
	}
	if len(tx.ops) > 0 && db.flaw != acksBeforeSync || len(tx.ops) == 0 && db.flaw != viewsBeforeSync {
		db.sync(tx.base)
	}
	return false, nil
}

func (db *reference) View(ctx context.Context, fn func(kv.Reader) error) error {
	tx, err := db.begin(ctx)
	if err != nil {
		return err
	}
	defer db.under.Done()
	tx.readOnly = true // an old state can be read for ever
	if db.flaw == staleViews {
		db.mu.Lock()
		tx.rows = db.versions[max(0, tx.base-1)].rows
		db.mu.Unlock()
	}
	err = fn(tx)
	if db.flaw != viewsBeforeSync && (err == nil || db.flaw != errorsBeforeSync) {
		db.sync(tx.base)
	}
	return err
}

func (db *reference) begin(ctx context.Context) (*referenceTx, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed && db.flaw != servesClosed {
		return nil, kv.ErrClosed
	}
	if err := ctx.Err(); err != nil && db.flaw != ignoresContext {
		if db.flaw == bareContextError {
			return nil, err
		}
		return nil, fmt.Errorf("%w: %w", kv.ErrUnavailable, err)
	}
	db.under.Add(1)
	base := len(db.versions) - 1
	state := db.versions[base].rows
	return &referenceTx{db: db, base: base, rows: state, committed: state}, nil
}

// sync makes the state durable up to a version, and what else there is by now.
func (db *reference) sync(base int) {
	if int64(base) <= db.synced.Load() {
		return
	}
	db.syncing.Lock()
	defer db.syncing.Unlock()
	if int64(base) <= db.synced.Load() {
		return
	}
	db.mu.Lock()
	last := len(db.versions) - 1
	db.mu.Unlock()
	for range 40 {
		runtime.Gosched() // let others read what is not durable yet
	}
	db.synced.Store(int64(last))
}

// powerLoss returns the store as one version from the last durable one on.
func (db *reference) powerLoss() Machine {
	db.mu.Lock()
	defer db.mu.Unlock()
	rng := rand.New(rand.NewPCG(db.seed, uint64(len(db.versions))))
	synced := int(db.synced.Load())
	left := synced + rng.IntN(len(db.versions)-synced)
	rows := db.versions[left].rows
	switch {
	case db.flaw == halfCommits && synced+1 < len(db.versions):
		rows = db.versions[synced+1].half
	case db.flaw == losesOldCommit && synced+2 < len(db.versions):
		// Of the last two commits only the second one reached the disk.
		last := db.versions[synced+2]
		rows = db.versions[synced].rows
		for _, w := range last.writes {
			begin, end := between(last.rows, w.begin, w.end)
			rows = splice(rows, w.begin, w.end, last.rows[begin:end])
		}
	}
	next := newReference(db.flaw, db.seed+1)
	next.versions[0].rows = rows
	return Machine{DB: next, PowerLoss: next.powerLoss}
}

func (db *reference) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return kv.ErrClosed
	}
	db.closed = true
	db.mu.Unlock()
	if db.flaw != closesAtOnce {
		db.under.Wait()
	}
	db.mu.Lock()
	defer db.mu.Unlock()
	for w := range db.watches {
		if db.flaw != closedWatchStays {
			w.end()
		}
	}
	return nil
}

// referenceTx is a transaction. Its rows are the state it reads under its own
// writes.
type referenceTx struct {
	db        *reference
	base      int
	rows      []referenceRow
	committed []referenceRow // the state without own writes
	ops       []op
	reads     []span
	conflicts int // bytes of explicit conflict keys
	snapshot  bool
	readOnly  bool
	began     time.Duration // when it read first; 0: not yet
	tooOld    bool          // found by a read
	watches   []*referenceWatch
}

// old returns an error when too much time has passed since the first read.
func (tx *referenceTx) old() error {
	now := time.Duration(tx.db.now.Load())
	if tx.began == 0 || tx.readOnly || now-tx.began <= kv.MaxTxAge || tx.is(neverTooOld) {
		return nil
	}
	tx.tooOld = !tx.is(oldReadsFail)
	return fmt.Errorf("%w: transaction too old", kv.ErrUnavailable)
}

// read is called by every read.
func (tx *referenceTx) read() error {
	if tx.began == 0 {
		tx.began = time.Duration(tx.db.now.Load())
	}
	return tx.old()
}

func (tx *referenceTx) is(f flaw) bool { return tx.db.flaw == f }

// state is what reads see.
func (tx *referenceTx) state() []referenceRow {
	if !tx.is(readsLatest) || len(tx.ops) > 0 {
		return tx.rows
	}
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	return tx.db.versions[len(tx.db.versions)-1].rows
}

func (tx *referenceTx) depend(s span) {
	if !tx.snapshot || tx.is(snapshotConflicts) {
		tx.reads = append(tx.reads, s)
	}
}

// find returns the place of key in rows and whether it is there.
func find(rows []referenceRow, key string) (int, bool) {
	i := sort.Search(len(rows), func(i int) bool { return rows[i].key >= key })
	return i, i < len(rows) && rows[i].key == key
}

// between returns where the rows of a range begin and end.
func between(rows []referenceRow, begin, end string) (int, int) {
	i, _ := find(rows, begin)
	j, _ := find(rows, end)
	return i, max(i, j)
}

// splice returns rows with others in the place of a range.
func splice(rows []referenceRow, begin, end string, others []referenceRow) []referenceRow {
	i, j := between(rows, begin, end)
	return slices.Concat(rows[:i], others, rows[j:])
}

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

func (tx *referenceTx) Conflict(key []byte) {
	tx.conflicts += 2*len(key) + 1
	if !tx.is(conflictIgnored) {
		tx.depend(keySpan(string(key)))
	}
}

func (tx *referenceTx) Set(key, value []byte)   { tx.write(set(string(key), string(value))) }
func (tx *referenceTx) Clear(key []byte)        { tx.write(clearKey(string(key))) }
func (tx *referenceTx) Add(key []byte, d int64) { tx.write(add(string(key), d)) }

func (tx *referenceTx) Max(key []byte, v uint64) { tx.write(raise(string(key), v)) }

func (tx *referenceTx) ClearRange(begin, end []byte) {
	if tx.is(clearsWhatItSees) {
		i, j := between(tx.rows, string(begin), string(end))
		for _, row := range tx.rows[i:j] {
			tx.write(clearKey(row.key))
		}
		return
	}
	tx.write(clearRange(string(begin), string(end)))
}

func (tx *referenceTx) write(o op) {
	if tx.is(integersConflict) && (o.kind == opAdd || o.kind == opMax) {
		tx.depend(keySpan(o.key))
	}
	if tx.is(addsWhatItSees) && o.kind == opAdd {
		o = setInteger(o.key, kv.DecodeInteger(tx.value(o.key))+uint64(o.delta))
	}
	if tx.is(signedMax) && o.kind == opMax && int64(o.max) < int64(kv.DecodeInteger(tx.value(o.key))) {
		return
	}
	tx.ops = append(tx.ops, o)
	tx.rows = applied(tx.rows, o)
}

// applied returns rows after a write.
func applied(rows []referenceRow, o op) []referenceRow {
	switch o.kind {
	case opClear:
		return splice(rows, o.key, o.key+"\x00", nil)
	case opClearRange:
		return splice(rows, o.key, o.end, nil)
	case opSet:
		return splice(rows, o.key, o.key+"\x00", []referenceRow{{o.key, o.value}})
	}
	// Let the model do the arithmetic.
	m := model{}
	if i, found := find(rows, o.key); found {
		m[o.key] = rows[i].value
	}
	m.apply(o)
	return splice(rows, o.key, o.key+"\x00", []referenceRow{{o.key, m[o.key]}})
}

// span returns what a write conflicts with.
func (o op) span() span {
	if o.kind == opClearRange {
		return span{o.key, o.end}
	}
	return keySpan(o.key)
}

func (tx *referenceTx) tooLarge() error {
	size := tx.conflicts
	if tx.is(conflictsWeighNothing) {
		size = 0
	}
	for _, o := range tx.ops {
		long := len(o.key) > kv.MaxKeySize && !tx.is(longKeys)
		if long || len(o.value) > kv.MaxValueSize && !tx.is(longValues) {
			return fmt.Errorf("%w: %s", kv.ErrTooLarge, o)
		}
		size += len(o.key) + len(o.end) + len(o.value)
	}
	if size > kv.MaxTxSize && !tx.is(longTransactions) {
		return fmt.Errorf("%w: transaction of %d bytes", kv.ErrTooLarge, size)
	}
	return nil
}

// commit tells whether the transaction took effect.
func (tx *referenceTx) commit() bool {
	db := tx.db
	db.mu.Lock()
	defer db.mu.Unlock()
	if len(tx.ops) > 0 {
		for _, v := range db.versions[tx.base+1:] {
			if tx.conflictsWith(v) {
				return false
			}
		}
		last := db.versions[len(db.versions)-1]
		next := version{rows: last.rows}
		for i, o := range tx.ops {
			if i == len(tx.ops)/2 {
				next.half = next.rows
			}
			next.rows = applied(next.rows, o)
			if s := o.span(); s.begin < s.end {
				next.writes = append(next.writes, s)
			}
		}
		db.versions = append(db.versions, next)
		tx.base = len(db.versions) - 1
		for w := range db.watches {
			if w.value != valueOf(next.rows, w.key) && !w.deaf(tx) {
				w.end()
			}
		}
	}
	rows := db.versions[len(db.versions)-1].rows
	for i, w := range tx.watches {
		switch {
		case tx.is(watchFromCommit):
			w.value = valueOf(rows, w.key)
			db.watches[w] = true
		case w.value != valueOf(rows, w.key), tx.is(watchFiresAtOnce):
			w.end()
		case tx.is(oneWatch) && i > 0:
		default:
			db.watches[w] = true
		}
	}
	return true
}

func (tx *referenceTx) conflictsWith(v version) bool {
	if tx.is(snapshotIsolation) {
		// The first committer wins, and nothing else matters.
		tx.reads = nil
		for _, o := range tx.ops {
			if o.kind == opSet || o.kind == opClear {
				tx.reads = append(tx.reads, o.span())
			}
		}
	}
	for _, w := range v.writes {
		for _, r := range tx.reads {
			if r.overlaps(w) {
				return true
			}
		}
		if tx.is(writesConflict) {
			for _, o := range tx.ops {
				if o.span().overlaps(w) {
					return true
				}
			}
		}
	}
	return false
}

func (tx *referenceTx) Prefetch(...[]byte) {}

func (tx *referenceTx) Watch(key []byte) *kv.Watch {
	done := make(chan struct{})
	w := &referenceWatch{db: tx.db, key: string(key), value: valueOf(tx.rows, string(key)), done: done}
	tx.watches = append(tx.watches, w)
	return kv.NewWatch(done, w.cancel)
}

func (tx *referenceTx) endWatches() {
	tx.db.mu.Lock()
	defer tx.db.mu.Unlock()
	for _, w := range tx.watches {
		w.end()
	}
}

// referenceWatch waits for its key to have another value.
type referenceWatch struct {
	db         *reference
	key, value string
	done       chan struct{}
	ended      bool
}

// valueOf returns a value so that a missing one differs from an empty one.
func valueOf(rows []referenceRow, key string) string {
	i, found := find(rows, key)
	if !found {
		return "missing"
	}
	return "=" + rows[i].value
}

// end is called with the store's lock held.
func (w *referenceWatch) end() {
	delete(w.db.watches, w)
	if !w.ended {
		w.ended = true
		close(w.done)
	}
}

func (w *referenceWatch) cancel() {
	w.db.mu.Lock()
	defer w.db.mu.Unlock()
	switch w.db.flaw {
	case cancelPanics:
		close(w.done)
	case cancelEndsAll:
		for other := range w.db.watches {
			other.end()
		}
	case cancelIsSilent:
		delete(w.db.watches, w)
		return
	}
	w.end()
}

// deaf says that a flaw keeps the watch from hearing of a commit.
func (w *referenceWatch) deaf(tx *referenceTx) bool {
	heard := false
	for _, o := range tx.ops {
		if keySpan(w.key).overlaps(o.span()) {
			switch o.kind {
			case opAdd, opMax:
				heard = heard || !tx.is(watchDeafToIntegers)
			case opClearRange:
				heard = heard || !tx.is(watchDeafToRanges)
			default:
				heard = true
			}
		}
	}
	return !heard
}
