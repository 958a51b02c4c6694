package local

import (
	"context"
	"fmt"
	"math"
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
	for losses := 0; ; losses++ {
		if err := ctx.Err(); err != nil {
			return unavailable(err)
		}
		done, err := db.updateOnce(ctx, fn)
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
	for {
		if err := ctx.Err(); err != nil {
			return unavailable(err)
		}
		if done, err := db.viewOnce(ctx, fn); done {
			return err
		}
	}
}

func (db *DB) viewOnce(ctx context.Context, fn func(kv.Reader) error) (done bool, err error) {
	t := db.begin()
	defer t.end()
	err = fn(&t.snapshot)
	if t.tooOld {
		db.stats.tooOld.Add(1)
		return false, nil
	}
	return true, t.awaitReads(ctx, err)
}

// attempt runs fn once. It is not done when fn has to run again.
func (db *DB) updateOnce(ctx context.Context, fn func(kv.Tx) error) (done bool, err error) {
	t := db.begin()
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
		// Perhaps there was nothing to clear. An empty batch would not be synced.
		db.activateWatches(t, nil)
		return true, t.awaitReads(ctx, nil)
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
	t = nil // it is not ours any more
	if err := db.await(ctx, c); err != nil {
		return true, fmt.Errorf("%w: %w", kv.ErrUnknown, err)
	}
	return true, nil
}

// settle returns err when all that the transaction read is durable: whatever
// its caller concludes from it must hold after a crash, too.
func (t *tx) awaitReads(ctx context.Context, err error) error {
	t.release()
	if t.upper != nil {
		if late := t.db.await(ctx, t.upper); late != nil {
			return unavailable(late)
		}
	}
	return err
}

// pause makes a transaction that keeps losing step back for a moment, so that
// many of them do not wear each other down.
func pause(ctx context.Context, losses int) {
	const patience = 4
	if losses < patience {
		return
	}
	longest := 50 * time.Microsecond << min(losses-patience, 6)
	timer := time.NewTimer(rand.N(longest))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// narrow turns ranges to be cleared into the few keys that they hold, if they
// are few: a tombstone for a range slows down every scan until it is gone, even
// those that are nowhere near it.
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

// prepare checks that nothing the transaction depends on has changed, and
// returns the commit that is to be applied next: the turn is its own until then.
// It returns none if the transaction has lost and has to run again. It is stale
// when somebody has set keys in ranges that were narrowed.
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

	// Most conflicts show before the turn is taken.
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
			db.stats.conflicts.Add(1) // it has had its turn, so it can be read
			return nil, false, nil
		}
	}
	for _, r := range w.narrow {
		if t.pinned.changes(r, math.MaxUint64).begin != nil {
			return nil, true, nil
		}
	}
	if err := db.resolveAtomics(w, batch); err != nil {
		return nil, false, err
	}
	c.batch = batch
	return c, false, nil
}

// takeTurn waits until it is the caller's turn to commit and the disk keeps up.
func (db *DB) lockCommits(ctx context.Context) error {
	for {
		if err := db.commitLock.lock(ctx); err != nil {
			return fmt.Errorf("the disk does not take what is to be written: %w", err)
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

// lost makes sure that a transaction which lost against c reads c's writes the
// next time: c may still be on its way into the store.
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

// fill returns a batch with the writes whose values are known. In the order of
// their keys the store's memory takes them fastest.
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
