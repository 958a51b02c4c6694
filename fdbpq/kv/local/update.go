package local

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// counts are the runs of closures that had to be repeated.
type counts struct {
	conflicts, tooOld atomic.Uint64
}

// Update implements kv.DB.
func (db *DB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	return db.update(ctx, nil, fn)
}

// update is Update in a term, or without one. A transaction that has lost a conflict runs again under the commit
// lock, so that it loses only once, whatever others write and however fast. In a term only one transaction runs
// alone in the time of a batch, so a transaction has to lose twice first.
func (db *DB) update(ctx context.Context, term *Term, fn func(kv.Tx) error) error {
	for losses := 0; ; {
		if err := ctx.Err(); err != nil {
			return unavailable(err)
		}
		alone := losses > 0
		if term != nil {
			alone = losses > 1
		}
		end, err := db.updateOnce(ctx, term, alone, fn)
		switch end {
		case finished:
			return err
		case lost:
			losses++
		}
		if term != nil {
			pause(ctx, losses)
		}
	}
}

// ending is how a run of a closure ended.
type ending int

const (
	finished ending = iota // with the result of the transaction
	lost                   // another commit changed something that it depends on: it has to run again
	tooOld                 // it took too long: it has to run again
)

// commitTurn is one run's hold on the commit lock, or on the turn of a term.
type commitTurn struct {
	commits *pipeline
	term    *Term // nil: the lock
	held    bool
}

// take takes the lock, unless the run has it already. After a nil error the run has it.
func (c *commitTurn) take(ctx context.Context) (err error) {
	switch {
	case c.held:
		return nil
	case c.term != nil:
		err = c.term.hold(ctx)
	default:
		err = c.commits.lockCommits(ctx)
	}
	c.held = err == nil
	return err
}

// end gives the lock back, if the run has it.
func (c *commitTurn) end() {
	if !c.held {
		return
	}
	c.held = false
	if c.term != nil {
		c.term.release()
	} else {
		c.commits.lock.unlock()
	}
}

// View implements kv.DB.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	return db.view(ctx, nil, fn)
}

// view is View in a term, or without one.
func (db *DB) view(ctx context.Context, term *Term, fn func(kv.Reader) error) error {
	for {
		if err := ctx.Err(); err != nil {
			return unavailable(err)
		}
		if done, err := db.viewOnce(ctx, term, fn); done {
			return err
		}
	}
}

func (db *DB) viewOnce(ctx context.Context, term *Term, fn func(kv.Reader) error) (done bool, err error) {
	t := db.begin(term)
	defer t.end()
	err = fn(&t.snapshot)
	if t.tooOld {
		db.stats.tooOld.Add(1)
		return false, nil
	}
	return true, t.awaitReads(ctx, err)
}

// updateOnce runs fn once, alone if nothing else may commit meanwhile.
func (db *DB) updateOnce(ctx context.Context, term *Term, alone bool, fn func(kv.Tx) error) (ending, error) {
	turn := commitTurn{commits: &db.commits, term: term}
	defer turn.end()
	if alone {
		if err := turn.take(ctx); err != nil {
			return finished, unavailable(err)
		}
	}
	t := db.begin(term)
	defer func() {
		if t != nil {
			t.end()
		}
	}()
	err := fn(t)
	if t.tooOld || err == nil && t.checkAge() != nil {
		db.stats.tooOld.Add(1)
		return tooOld, nil
	}
	w := &t.buf.writes
	if db.opts.readOnly() && err == nil && !w.empty() {
		err = errReadOnly
	}
	if err == nil {
		err = w.refused
	}
	if size := w.size() + t.buf.reads.size(); err == nil && size > kv.MaxTxSize && !w.empty() {
		err = fmt.Errorf("%w: transaction has %d bytes, at most %d are allowed", kv.ErrTooLarge, size, kv.MaxTxSize)
	}
	if err == nil && !w.empty() {
		err = t.narrow()
	}
	if err != nil {
		turn.end()
		return finished, t.awaitReads(ctx, err)
	}
	if w.empty() {
		turn.end()
		// The ranges to clear may have been empty. Pebble does not sync an empty batch.
		if term != nil {
			term.watch(t)
		} else {
			db.watches.activate(t.takeWatches(), t.pinned, nil)
		}
		return finished, t.awaitReads(ctx, nil)
	}
	if term != nil {
		ready := t
		t = nil
		return term.commit(ctx, ready, &turn)
	}
	c, stale, err := db.prepare(ctx, t, &turn)
	if stale {
		w.widenRanges()
		c, _, err = db.prepare(ctx, t, &turn)
	}
	if err != nil {
		turn.end()
		return finished, t.awaitReads(ctx, err)
	}
	if c == nil {
		return lost, nil
	}
	turn.held = false // applyCommits gives the lock back
	db.commits.toApply <- applyJob{t, c}
	t = nil // and ends the transaction
	if err := db.commits.await(ctx, c); err != nil {
		return finished, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	return finished, nil
}

// awaitReads returns err once all data that the transaction read is durable, so that conclusions from it hold after
// a crash, too. In a term it also makes certain that the state was the newest one.
func (t *tx) awaitReads(ctx context.Context, err error) error {
	t.release()
	switch {
	case t.upper == nil:
	case t.term != nil:
		if failed := t.term.confirm(ctx); failed != nil {
			return unavailable(failed)
		}
	default:
		if late := t.db.commits.await(ctx, t.upper); late != nil {
			return unavailable(late)
		}
	}
	return err
}

// pause delays a transaction that has lost several conflicts, so that many of them
// make progress.
func pause(ctx context.Context, losses int) {
	const undelayed = 4
	if losses < undelayed {
		return
	}
	longest := 50 * time.Microsecond << min(losses-undelayed, 6)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// narrow replaces cleared ranges that have few keys by these keys: a range tombstone
// slows down every scan of the store, wherever it is, until it is compacted.
func (t *tx) narrow() error {
	const few = 64
	w := &t.buf.writes
	if len(w.cleared) == 0 {
		return nil
	}
	if t.snap == nil {
		if err := t.open(); err != nil {
			return err
		}
	}
	for _, r := range slices.Clone(w.cleared) {
		all, err := t.storeKeys(r, few, w.clearEncoded)
		if err != nil {
			return err
		}
		if all {
			w.narrowRange(r)
		}
	}
	return nil
}

// unlockedRounds bounds how often a commit looks for conflicts without the lock. Each round compares it with the
// commits that came during the round before. If others commit as fast as it compares, it goes on with the lock.
const unlockedRounds = 3

// prepare checks for conflicts and returns the commit to be applied next; the caller then has the turn. After a
// conflict it returns nil: the transaction has to run again. stale says that another commit set keys in ranges that
// were narrowed.
func (db *DB) prepare(ctx context.Context, t *tx, turn *commitTurn) (next *commit, stale bool, err error) {
	w := &t.buf.writes
	w.sort()
	batch, err := db.writer.newBatch(w)
	if err != nil {
		return nil, false, unavailable(err)
	}
	defer func() {
		if next == nil {
			db.writer.closeBatch(batch)
		}
	}()
	c := newCommit(w)

	// Most conflicts are found without the lock.
	checked := t.pinned
	for round := 0; ; round++ {
		if round == unlockedRounds || checked == nil || checked == db.newest.Load() {
			if err := turn.take(ctx); err != nil {
				return nil, false, unavailable(err)
			}
		}
		if checked == nil {
			break // it depends on nothing
		}
		newest := db.newest.Load()
		loss, change, err := t.changed(ctx, checked, newest)
		switch {
		case err != nil:
			return nil, false, unavailable(err)
		case loss:
			db.stats.conflicts.Add(1)
			return nil, false, nil
		case change:
			return nil, true, nil
		}
		if checked = newest; turn.held {
			break
		}
	}
	if err := db.writer.resolveAtomics(w, batch, nil); err != nil {
		return nil, false, err
	}
	c.batch = batch
	return c, false, nil
}

// changed reports whether a commit after one, up to another one, changed something that the transaction depends on,
// or ranges that it clears key by key.
func (t *tx) changed(ctx context.Context, after, last *commit) (reads, narrowed bool, err error) {
	loss, err := after.firstConflict(ctx, &t.buf.reads, last)
	if err != nil || loss != nil {
		return loss != nil, false, err
	}
	change, err := after.firstConflict(ctx, &t.buf.writes.narrow, last)
	return false, change != nil, err
}

// writer puts the writes of transactions into Pebble's batches.
type writer struct {
	store    *pebble.DB
	disk     *logs.Disk
	counters *counterCache
	damages  *damages
	log      *slog.Logger
}

// newBatch returns a batch with the writes whose values are known, in the order of
// their keys, which Pebble inserts fastest.
func (wr *writer) newBatch(w *writeSet) (*pebble.Batch, error) {
	batch := wr.store.NewBatchWithSize(64 + logs.MaxMark + w.size() + 16*w.keys.len())
	var buf [logs.MaxMark]byte
	if err := batch.LogData(wr.disk.Synced().Append(buf[:0]), nil); err != nil {
		return nil, err
	}
	for _, r := range w.cleared {
		if err := batch.DeleteRange(r.begin, r.end, nil); err != nil {
			return nil, err
		}
	}
	for _, i := range w.sorted {
		var err error
		e, key := &w.entries[i], w.keys.key(i)
		switch {
		case e.kind == kindSet:
			err = batch.Set(key, w.value(e), nil)
		case e.kind == kindClear && !w.cleared.contains(key):
			err = batch.Delete(key, nil)
		}
		if err != nil {
			return nil, err
		}
	}
	return batch, nil
}

func (wr *writer) closeBatch(batch *pebble.Batch) {
	if err := batch.Close(); err != nil {
		wr.log.Error("kv/local: closing a batch failed", "err", err)
	}
}

// resolveAtomics adds the results of the atomic operations to the batch. It runs under the commit lock, so it reads
// the newest values. Values in the batch of a term, b, are newer than the store; b is nil without a term.
func (wr *writer) resolveAtomics(w *writeSet, batch *pebble.Batch, b *Batch) error {
	if len(w.cleared) > 0 {
		wr.counters.reset()
	}
	for i := range w.entries {
		e, hash := &w.entries[i], w.keys.entries[i].hash
		if e.kind != kindAtomic {
			wr.counters.drop(hash)
			continue
		}
		key := w.keys.key(int32(i))
		value, known := wr.counters.get(hash, key)
		if !known && b != nil {
			value, known = b.value(hash, key)
		}
		if !known {
			stored, err := valueIn(wr.store, key)
			if err != nil {
				wr.counters.reset() // some of its values will not be committed
				return wr.damages.readError(err)
			}
			value = kv.DecodeInteger(stored)
		}
		value = w.evaluate(e, value)
		wr.counters.put(hash, key, value)
		if err := batch.Set(key, kv.EncodeInteger(value), nil); err != nil {
			wr.counters.reset()
			return unavailable(err)
		}
		w.putInteger(e, value) // for the cache of rows, and for other replicas, which get results
	}
	return nil
}
