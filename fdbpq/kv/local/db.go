// Package local is the embedded engine: a kv.DB in one directory of one
// machine, on top of Pebble.
//
// Transactions are optimistic. A closure runs without any lock on a snapshot
// of the store; the commit takes a lock for as long as it needs to check that
// nothing the closure depends on has changed, and to put the writes into the
// store's memory and its log. It waits for the log to be synced outside the
// lock, so transactions that commit at about the same time share one sync.
//
// Durable means synced to disk. Update and View return when everything they
// read and wrote is, and a sync that fails ends the process, because from then
// on nobody knows what is on the disk. With Options.NoSync durable means written
// to the operating system, which survives the process but not the machine.
//
// Whoever gives up before the disk has a commit, because its context ends, gets
// ErrUnknown if the commit can be read already or may be in a moment: it takes
// effect unless the process ends. Otherwise ErrUnknown does not occur.
//
// A disk that does not answer, and one that is full where tables are written,
// hold nobody up beyond the end of their contexts, and once it works again so
// does the store.
package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Options are an operator's choices; the zero value is right for production.
type Options struct {
	// NoSync makes Update and View return when the operating system has what they
	// rest on, without waiting for the disk. The end of the process takes nothing
	// back. A crash of the machine takes back the most recent commits, but never a
	// part of one, nor one without all later ones.
	NoSync bool

	// Salvage opens a store that may be damaged, to read what is left of it.
	// Nothing is changed. What cannot be read is passed over, as if it were not
	// there: Damage and Skipped tell of it. What was cleared may be there again,
	// when it was noted in what cannot be read.
	Salvage bool

	// Log receives what goes wrong in the background; nil stands for
	// slog.Default().
	Log *slog.Logger

	// FS is where the directory lies; nil stands for the machine's own files.
	FS vfs.FS

	// Fatal is called when nothing may be answered any more, because writing or
	// syncing failed; nil ends the process. Should it return, every transaction
	// under way and to come fails.
	Fatal func(error)

	// Now tells the time by which transactions age; nil stands for time.Now.
	Now func() time.Time
}

// DB is the engine. It implements kv.DB.
type DB struct {
	store   *pebble.DB
	disk    *logDisk
	opts    Options
	dirLock io.Closer // on the directory

	life       lifetime
	commitLock *mutex                 // held by the transaction that commits, until that is readable
	toApply    chan applyJob          // the commit whose turn it is
	toSync     chan *commit           // those that are readable, in their order
	syncing    atomic.Pointer[commit] // the last one that was waited for
	allSynced  chan struct{}          // closed when nothing is on its way to the disk any more
	tables     tableHealth
	background *backgroundLog
	newest     atomic.Pointer[commit] // the newest commit, readable or just about to be
	applied    atomic.Pointer[commit] // the newest commit that surely is readable
	broken     atomic.Pointer[error]  // set when nothing may be answered any more
	gaps       gapCache
	counters   *counterCache
	rows       rowCache
	idleMarks  idleMarks
	damages    damages
	watches    watchSet
	buffers    sync.Pool
	stats      counts
}

var _ kv.DB = (*DB)(nil)

// Open opens the store in dir and creates it if there is none. Only one process
// can have it open, whatever becomes of the files in dir.
func Open(dir string, opts Options) (*DB, error) {
	if opts.Log == nil {
		opts.Log = slog.Default()
	}
	if opts.Fatal == nil {
		opts.Fatal = exit
	}
	if opts.FS == nil {
		opts.FS = vfs.Default
	}
	if opts.Now == nil {
		opts.Now = time.Now
	}
	if opts.Salvage {
		opts.Now = func() time.Time { return time.Time{} } // what is read never changes, and may take long
	}
	db := &DB{
		opts:       opts,
		commitLock: newMutex(),
		toApply:    make(chan applyJob, 1),
		toSync:     make(chan *commit, maxUnsynced),
		allSynced:  make(chan struct{}),
		background: newBackgroundLog(opts.Log, opts.Now),
		gaps:       gapCache{limits: defaultGapLimits},
		counters:   newCounterCache(),
		buffers:    sync.Pool{New: newBuffers},
	}
	db.life.idle = make(chan struct{})
	db.tables = tableHealth{background: db.background, closing: make(chan struct{})}
	var err error
	db.dirLock, err = lockDirectory(opts.FS, dir, opts.Log)
	if err != nil {
		return nil, openFailure(dir, err)
	}

	db.disk = newLogDisk(tableDisk{opts.FS, &db.tables}, dir, opts.NoSync)
	db.startIdleMarks()

	// What an earlier process had not synced and the store found in its log all
	// the same is durable when Open returns, as it is flushed first.
	if err := db.openPebble(dir); err != nil {
		return nil, errors.Join(openFailure(dir, err), db.dirLock.Close())
	}
	first := &commit{durable: make(chan struct{})}
	close(first.durable)
	db.newest.Store(first)
	db.applied.Store(first)
	go db.applyCommits()
	go db.syncCommits()
	return db, nil
}

// refused says why the store in dir was not opened.
func openFailure(dir string, err error) error {
	if isLocked(err) {
		return fmt.Errorf("kv/local: the store in %s is in use by another process: %w", dir, err)
	}
	return fmt.Errorf("kv/local: opening the store in %s: %w", dir, err)
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || err.Error() == "lock held by current process"
}

// Close implements kv.DB.
func (db *DB) Close() error {
	if !db.life.close() {
		return kv.ErrClosed
	}
	db.watches.endAll()
	db.idleMarks.timer.Stop()
	close(db.toApply)
	if db.broken.Load() == nil {
		<-db.allSynced
	}
	if broken := db.broken.Load(); broken != nil {
		return *broken // and who knows what the store would do now
	}
	close(db.tables.closing)
	if !db.opts.NoSync && !db.opts.Salvage {
		if err := db.writeSyncMark(); err != nil {
			return fmt.Errorf("kv/local: closing the store: %w", err)
		}
	}
	if err := errors.Join(db.store.Close(), db.dirLock.Close()); err != nil {
		return fmt.Errorf("kv/local: closing the store: %w", err)
	}
	return nil
}

// fail notes that nothing may be answered any more, for err.
func (db *DB) fail(err error) {
	if db.broken.CompareAndSwap(nil, &err) {
		db.opts.Fatal(err)
	}
}

// exit ends the process in a way that nobody can recover from.
func exit(err error) {
	go panic(fmt.Errorf("kv/local: what was answered may be lost, giving up: %w", err))
	select {}
}
