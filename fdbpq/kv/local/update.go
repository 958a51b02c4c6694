package local

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Update implements kv.DB.
func (db *DB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	return db.update(ctx, nil, fn)
}

// update is Update in a term, or without one.
func (db *DB) update(ctx context.Context, term *Term, fn func(kv.Tx) error) error {
	for losses := 0; ; losses++ {
		if err := ctx.Err(); err != nil {
			return unavailable(err)
		}
		done, err := db.updateOnce(ctx, term, fn)
		if done {
			return err
		}
		pause(ctx, losses)
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

// updateOnce runs fn once. done is false when fn has to run again.
func (db *DB) updateOnce(ctx context.Context, term *Term, fn func(kv.Tx) error) (done bool, err error) {
	t := db.begin(term)
	defer func() {
		if t != nil {
			t.end()
		}
	}()
	err = fn(t)
	if t.tooOld || err == nil && t.checkAge() != nil {
		db.stats.tooOld.Add(1)
		return false, nil
	}
	w := &t.buf.writes
	if db.opts.Salvage && err == nil && !w.empty() {
		err = errSalvage
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
		return true, t.awaitReads(ctx, err)
	}
	if w.empty() {
		// The ranges to clear may have been empty. Pebble does not sync an empty batch.
		if term != nil {
			term.watch(t)
		} else {
			db.activateWatches(t, nil)
		}
		return true, t.awaitReads(ctx, nil)
	}
	if term != nil {
		ready := t
		t = nil
		return term.commit(ctx, ready)
	}
	c, stale, err := db.prepare(ctx, t)
	if stale {
		w.widenRanges()
		c, _, err = db.prepare(ctx, t)
	}
	if err != nil {
		return true, t.awaitReads(ctx, err)
	}
	if c == nil {
		return false, nil
	}
	db.toApply <- applyJob{t, c}
	t = nil // applyCommits ends it
	if err := db.await(ctx, c); err != nil {
		return true, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	return true, nil
}

// awaitReads returns err once all that the transaction read is durable, so that
// conclusions from it hold after a crash, too. In a term it also makes certain that the
// state was the newest one.
func (t *tx) awaitReads(ctx context.Context, err error) error {
	t.release()
	switch {
	case t.upper == nil:
	case t.term != nil:
		if failed := t.term.confirm(ctx); failed != nil {
			return unavailable(failed)
		}
	default:
		if late := t.db.await(ctx, t.upper); late != nil {
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

// prepare checks for conflicts and returns the commit to be applied next, which holds
// the commit lock until then. It returns nil after a conflict: the transaction has to
// run again. stale says that another commit set keys in ranges that were narrowed.
func (db *DB) prepare(ctx context.Context, t *tx) (next *commit, stale bool, err error) {
	w, r := &t.buf.writes, &t.buf.reads
	w.sort()
	batch, err := db.newBatch(w)
	if err != nil {
		return nil, false, unavailable(err)
	}
	defer func() {
		if next == nil {
			db.closeBatch(batch)
		}
	}()

	// Most conflicts are found without the lock.
	checked := t.pinned
	if checked != nil {
		var loss *commit
		if loss, checked = checked.firstConflict(r); loss != nil {
			db.afterConflict(ctx, loss)
			return nil, false, nil
		}
	}
	c := newCommit(w)
	if err := db.lockCommits(ctx); err != nil {
		return nil, false, unavailable(err)
	}
	defer func() {
		if next == nil {
			db.commitLock.unlock()
		}
	}()
	if checked != nil {
		if loss, _ := checked.firstConflict(r); loss != nil {
			db.stats.conflicts.Add(1) // it held the lock, so it has been applied
			return nil, false, nil
		}
	}
	for _, r := range w.narrow {
		if t.pinned.changesSince(r) {
			return nil, true, nil
		}
	}
	if err := db.resolveAtomics(w, batch, nil); err != nil {
		return nil, false, err
	}
	c.batch = batch
	return c, false, nil
}

// lockCommits takes the commit lock once tables can be written and no sync is late.
func (db *DB) lockCommits(ctx context.Context) error {
	for {
		if err := db.commitLock.lock(ctx); err != nil {
			return fmt.Errorf("earlier commits still wait for the disk: %w", err)
		}
		if broken := db.broken.Load(); broken != nil {
			db.commitLock.unlock()
			return *broken
		}
		if err := db.tables.err(); err != nil {
			db.commitLock.unlock()
			return err
		}
		late := db.late()
		if late == nil {
			return nil
		}
		db.commitLock.unlock()
		if err := db.await(ctx, late); err != nil {
			return err
		}
	}
}

// afterConflict waits until c is applied, so that the transaction that lost against
// it reads its writes when it runs again.
func (db *DB) afterConflict(ctx context.Context, c *commit) {
	db.stats.conflicts.Add(1)
	if db.applied.Load().version >= c.version {
		return
	}
	if err := db.commitLock.lock(ctx); err == nil {
		db.commitLock.unlock()
	}
}

func (db *DB) closeBatch(batch *pebble.Batch) {
	if err := batch.Close(); err != nil {
		db.opts.Log.Error("kv/local: closing a batch failed", "err", err)
	}
}

// newBatch returns a batch with the writes whose values are known, in the order of
// their keys, which Pebble inserts fastest.
func (db *DB) newBatch(w *writeSet) (*pebble.Batch, error) {
	batch := db.store.NewBatchWithSize(64 + maxSyncMark + w.size() + 16*w.keys.len())
	var buf [maxSyncMark]byte
	if err := batch.LogData(db.disk.syncMark().append(buf[:0]), nil); err != nil {
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
