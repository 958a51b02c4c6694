package kvtest

import (
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

// state is the rows that reads see.
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

func (tx *referenceTx) Prefetch(...[]byte) {}

func (tx *referenceTx) PrefetchRange(_, _ []byte, _ kv.RangeOptions) {}
