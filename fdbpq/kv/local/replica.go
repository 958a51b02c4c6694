package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Replica is a store whose commits are decided elsewhere, by a log that several processes share. It changes in two
// ways: Apply commits entries of the log, and during a [Term] the transactions of this process form batches, each
// of which commits when its caller says that the log has it.
//
// A commit of a replica is durable in the log. So it does not wait for this disk: a crash loses the most recent
// commits, each as a whole and with all later ones. Each commit has a position, from which the caller knows which
// entries of the log are missing.
//
// One goroutine at a time calls Apply, and Next of a term until the batch that it returned is decided. The other
// methods may be called at any time.
type Replica struct {
	db  *DB
	dir string
}

// OpenReplica opens the replica in dir and creates it if there is none. The options
// NoSync, Salvage and ReadOnly are for stores without a log.
func OpenReplica(dir string, opts Options) (*Replica, error) {
	if opts.NoSync || opts.readOnly() {
		return nil, errors.New("kv/local: a replica can neither do without syncs nor be opened read-only")
	}
	db, err := Open(dir, opts)
	if err != nil {
		return nil, err
	}
	r := &Replica{db: db, dir: dir}
	if err := removeCheckpoint(db.opts.FS, dir); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return r, nil
}

// The position is a range key of Pebble's: no scan sees range keys, and no range of cleared keys covers them. Its
// bounds lie where encodeKey puts no key.
var positionBegin, positionEnd = []byte{0, 1}, []byte{0, 2}

// Position returns the position of the last commit, nil when there was none.
func (r *Replica) Position() (position []byte, err error) { return r.db.Position() }

// Position returns the position of the replica that is opened here as a store, nil if it
// is none.
func (db *DB) Position() (position []byte, err error) {
	iter, err := db.store.NewIter(&pebble.IterOptions{KeyTypes: pebble.IterKeyTypeRangesOnly})
	if err != nil {
		return nil, db.damages.readError(err)
	}
	if iter.First() {
		for _, k := range iter.RangeKeys() {
			position = bytes.Clone(k.Value)
		}
	}
	if err := iter.Close(); err != nil {
		return nil, db.damages.readError(err)
	}
	return position, nil
}

// Apply commits changes that another process has made; see Batch.Changes. When it
// fails, nothing was committed.
func (r *Replica) Apply(changes, position []byte) error {
	db := r.db
	if !db.life.enter() {
		return kv.ErrClosed
	}
	defer db.life.leave()
	t := db.begin(nil)
	defer t.end()
	w := &t.buf.writes
	if err := w.decode(changes); err != nil {
		return err
	}
	w.sort()
	batch, err := db.writer.newBatch(w)
	if err != nil {
		return unavailable(err)
	}
	defer db.writer.closeBatch(batch)
	if err := db.commits.lockReplica(); err != nil {
		return err
	}
	defer db.commits.lock.unlock()
	if err := db.writer.resolveAtomics(w, batch, nil); err != nil {
		return err
	}
	return db.commits.applyShared([]*proposal{{t: t, c: newCommit(w)}}, batch, position)
}

// lockReplica takes the commit lock unless the disk refuses commits.
func (pipe *pipeline) lockReplica() error {
	if err := pipe.failure.err(); err != nil {
		return err
	}
	if err := pipe.tables.err(); err != nil {
		return unavailable(err)
	}
	return pipe.lock.lock(context.Background())
}

// applyShared makes the commits of proposals readable at once, with the position. The steps have the same order as
// in apply. The caller holds the commit lock. An error leaves the store unusable.
func (pipe *pipeline) applyShared(all []*proposal, batch *pebble.Batch, position []byte) (err error) {
	defer func() {
		// Pebble panics when it cannot write its log.
		if p := recover(); p != nil {
			err = fmt.Errorf("writing to the store failed: %v", p)
		}
		if err != nil {
			pipe.failure.set(err)
		}
	}()
	if err := batch.RangeKeySet(positionBegin, positionEnd, nil, position, nil); err != nil {
		return err
	}
	last := pipe.newest.Load()
	for _, p := range all {
		p.c.version = last.version + 1
		close(p.c.durable)
		last.next.Store(p.c)
		last = p.c
		pipe.newest.Store(last)
		w := &p.t.buf.writes
		set, cleared := w.outcome()
		pipe.gaps.written(set, cleared, last.version)
		pipe.rows.write(w, last.version)
	}
	if err := pipe.store.Apply(batch, pebble.NoSync); err != nil {
		return fmt.Errorf("writing to the store failed: %w", err)
	}
	pipe.applied.Store(last)
	for _, p := range all {
		pipe.noteClears(&p.t.buf.writes)
		pipe.watches.activate(p.t.takeWatches(), p.t.pinned, p.c)
		pipe.count.Add(1)
	}
	for _, p := range all {
		pipe.watches.fire(p.c.version, p.t.buf.writes.keys.entries, p.c.ranges)
	}
	return nil
}

// Sync returns when all commits before the call are on this disk.
func (r *Replica) Sync() error {
	if !r.db.life.enter() {
		return kv.ErrClosed
	}
	defer r.db.life.leave()
	if err := r.db.failure.err(); err != nil {
		return err
	}
	if err := r.db.marks.write(); err != nil {
		r.db.failure.set(err)
		return err
	}
	r.db.marks.note()
	return nil
}

// View runs fn on the last committed state, which may be older than the log.
func (r *Replica) View(ctx context.Context, fn func(kv.Reader) error) error {
	return r.db.View(ctx, fn)
}

// Backup copies the replica as DB.Backup does. The copy is a replica as well as a store.
func (r *Replica) Backup(dir string) error { return r.db.Backup(dir) }

// Reclaim frees the space of cleared rows, as DB.Reclaim does.
func (r *Replica) Reclaim() { r.db.Reclaim() }

// Spare returns how many bytes the spare file has, and how many it is to have, as DB.Spare does.
func (r *Replica) Spare() (has, want int64) { return r.db.Spare() }

// KeepSpare makes the spare file, as DB.KeepSpare does.
func (r *Replica) KeepSpare() error { return r.db.KeepSpare() }

// GiveUpSpare removes the spare file, as DB.GiveUpSpare does.
func (r *Replica) GiveUpSpare() error { return r.db.GiveUpSpare() }

// Metrics returns the numbers as they are now.
func (r *Replica) Metrics() (Metrics, error) { return r.db.Metrics() }

// Damage returns the damage found since the replica was opened.
func (r *Replica) Damage() []Damage { return r.db.Damage() }

// Close waits for transactions under way, and releases the replica. The caller ends its
// term before.
func (r *Replica) Close() error { return r.db.Close() }
