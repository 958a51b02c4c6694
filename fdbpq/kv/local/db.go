// Package local is the embedded engine: a kv.DB in one directory of one
// machine, on top of Pebble.
//
// Transactions are optimistic. A closure runs without a lock on a snapshot of the
// store. The commit holds a lock while it writes to the store's memory and its log. It
// waits for the sync of the log without the lock, so transactions that commit at about
// the same time share one sync. A closure that has lost a conflict runs again with the
// lock, so it loses once.
//
// Guarantees:
//   - When Update or View returns, everything that it read and wrote is durable:
//     synced to the disk. With Options.NoSync durable means written to the operating
//     system, which survives the process but not the machine.
//   - A sync that fails ends the process, because the content of the disk is unknown
//     from then on.
//   - ErrUnknown occurs only when the context ends while a commit waits for the disk.
//     That commit takes effect unless the process ends first.
//   - Calls return when their context ends, also while the disk does not answer or is
//     full. The store works again once the disk does.
//   - A read that needs a damaged file returns ErrDamaged.
package local

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// Options are an operator's choices; the zero value is right for production.
type Options struct {
	// NoSync makes Update and View return once the operating system has the data,
	// without waiting for the disk. No commit is lost when the process ends. A crash of
	// the machine loses the most recent commits, each as a whole and with all later
	// ones.
	NoSync bool

	// Salvage opens a damaged store read-only. Reads skip damaged parts; Damage and Skipped report them. A cleared
	// row reappears if the record of the clear cannot be read.
	Salvage bool

	// ReadOnly opens an existing store and changes none of its files, so it also opens a store that this user may
	// not write. Damage is an error, as without ReadOnly.
	ReadOnly bool

	// Spare is how many bytes the spare file has, whose room the store gets when the disk is full; 0: there is none. Stores that
	// are opened read-only leave the file as it is.
	Spare int64

	// Log receives problems of background work; nil means slog.Default().
	Log *slog.Logger

	// FS is the file system; nil means the machine's own.
	FS vfs.FS

	// Fatal is called when writing or syncing failed, so that no transaction may
	// succeed any more; nil ends the process. If it returns, all current and later
	// transactions fail.
	Fatal func(error)

	// Now is the clock for the age of transactions; nil means time.Now.
	Now func() time.Time
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.Fatal == nil {
		o.Fatal = exit
	}
	if o.FS == nil {
		o.FS = vfs.Default
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.readOnly() {
		o.Now = func() time.Time { return time.Time{} } // the content never changes, and reading it may take long
	}
	return o
}

func (o *Options) readOnly() bool { return o.ReadOnly || o.Salvage }

// DB is the engine. It implements kv.DB.
type DB struct {
	store   *pebble.DB
	disk    *logs.Disk
	opts    Options
	dirLock io.Closer // on the directory

	history
	life       lifetime
	commits    pipeline
	writer     writer
	tables     tableHealth
	background *backgroundLog
	failure    failure
	gaps       gapCache
	rows       rowCache
	marks      syncMarks
	damages    damages
	watches    watchSet
	buffers    sync.Pool
	stats      counts
	opening    opening
	reports    reports
	reclaim    reclaim
	spare      spare
}

var _ kv.DB = (*DB)(nil)

// Open opens the store in dir and creates it if there is none. Only one process can
// have it open, even if files in dir are deleted.
func Open(dir string, opts Options) (*DB, error) {
	db := newDB(opts.withDefaults())
	if err := db.lockDir(dir); err != nil {
		return nil, err
	}
	db.spare = spare{disk: db.opts.FS, dir: dir, want: db.opts.Spare, background: db.background}
	if !db.opts.readOnly() {
		db.spare.find()
	}
	db.prepareOpening(dir)
	// Pebble flushes the commits that it finds in the log, so commits that an earlier process had not synced are
	// durable when Open returns.
	store, err := db.opening.openPebble(dir)
	if err != nil {
		if !db.opening.abandoned {
			err = errors.Join(err, db.dirLock.Close())
		}
		return nil, openFailure(dir, err)
	}
	db.startCommits(store)
	return db, nil
}

func newDB(opts Options) *DB {
	db := &DB{
		opts:       opts,
		background: newBackgroundLog(opts.Log, opts.Now),
		gaps:       gapCache{limits: defaultGapLimits},
		buffers:    sync.Pool{New: newBuffers},
	}
	db.life.idle = make(chan struct{})
	db.failure.fatal = opts.Fatal
	db.damages.log = opts.Log
	db.watches.history = &db.history
	db.tables = tableHealth{background: db.background, closing: make(chan struct{})}
	return db
}

// lockDir takes the lock of the store's directory, which has to be free of the traces of a restore.
func (db *DB) lockDir(dir string) (err error) {
	fs := db.opts.FS
	db.dirLock, err = lockDirectory(fs, dir, db.opts.Log)
	if err != nil {
		return openFailure(dir, err)
	}
	if _, err := fs.Stat(fs.PathJoin(dir, restoring)); err == nil {
		return errors.Join(fmt.Errorf("kv/local: a restore of the store in %s was interrupted: run it again", dir), db.dirLock.Close())
	}
	if _, locked := db.dirLock.(directoryLock); locked && db.opts.readOnly() {
		db.opts.FS = unlocked{fs}
	}
	return nil
}

// prepareOpening makes the parts that watch Pebble while it opens the store: the disk of the log, the marks of what is
// synced, and the reports of damage.
func (db *DB) prepareOpening(dir string) {
	opts := &db.opts
	db.disk = logs.NewDisk(tableDisk{openingDisk{spareDisk{opts.FS, &db.spare}, &db.opening}, &db.tables}, dir, opts.NoSync, db.logFailed)
	db.marks = syncMarks{
		off:        opts.NoSync || opts.readOnly(),
		history:    &db.history,
		disk:       db.disk,
		life:       &db.life,
		failure:    &db.failure,
		background: db.background,
	}
	db.marks.start()
	db.reports = reports{
		tables:     &db.tables,
		damages:    &db.damages,
		marks:      &db.marks,
		opening:    &db.opening,
		failure:    &db.failure,
		logFailed:  db.logFailed,
		background: db.background,
	}
	db.opening = opening{
		failed:  make(chan error, 1),
		disk:    db.disk,
		salvage: opts.Salvage,
		reads:   opts.readOnly(),
		damages: &db.damages,
		reports: &db.reports,
		log:     opts.Log,
	}
}

// startCommits starts the pipeline that commits to the open store.
func (db *DB) startCommits(store *pebble.DB) {
	db.store, db.marks.store = store, store
	db.writer = writer{store: store, disk: db.disk, counters: newCounterCache(), damages: &db.damages, log: db.opts.Log}
	db.reclaim = reclaim{history: &db.history, commits: &db.commits, store: store, tables: &db.tables, failure: &db.failure, background: db.background}
	db.commits = pipeline{
		lock:      newMutex(),
		toApply:   make(chan applyJob, 1),
		toSync:    make(chan *commit, maxUnsynced),
		allSynced: make(chan struct{}),
		history:   &db.history,
		store:     store,
		writer:    &db.writer,
		gaps:      &db.gaps,
		rows:      &db.rows,
		watches:   &db.watches,
		marks:     &db.marks,
		tables:    &db.tables,
		failure:   &db.failure,
		now:       db.opts.Now,
	}
	first := &commit{durable: make(chan struct{})}
	close(first.durable)
	db.newest.Store(first)
	db.applied.Store(first)
	db.commits.start()
}

// openFailure wraps an error of opening the store in dir.
func openFailure(dir string, err error) error {
	if isLocked(err) {
		by := "another process"
		if pid := holder(dir); pid != 0 {
			by += " (pid " + strconv.Itoa(pid) + unit(pid) + ")"
		}
		return &describedError{fmt.Sprintf("kv/local: the store in %s is in use by %s", dir, by), err}
	}
	if _, format, newer := strings.Cut(err.Error(), "written in unknown format major version "); newer {
		return &describedError{fmt.Sprintf("kv/local: a newer program wrote the store in %s: its files have the format %s, and this program knows those up to %d. Open it with that version or a later one", dir, format, pebble.FormatNewest), err}
	}
	return fmt.Errorf("kv/local: opening the store in %s: %w", dir, err)
}

func isLocked(err error) bool {
	return errors.Is(err, syscall.EAGAIN) || err.Error() == "lock held by current process"
}

// Brief implements [kv.Brief]. An item of 4,000 bytes that is leased and acknowledged takes two thirds of the time if its
// content is apart; with 1,000 bytes there is no gain.
func (db *DB) Brief() int { return 2 << 10 }

// Damage returns the damage found since the store was opened, in the order of the
// files' names.
func (db *DB) Damage() []Damage { return db.damages.all() }

// Skipped returns how often reads of a salvaged store skipped damage.
func (db *DB) Skipped() uint64 { return db.damages.skipped.Load() }

// Reclaim flushes the commits since the last call, so that compactions can free the space of cleared rows. It does
// nothing while an earlier flush is under way, or tables cannot be written.
func (db *DB) Reclaim() { db.flush(false) }

// ReclaimCleared is Reclaim for a disk where hardly any room is left: it does nothing, either, if none of the commits has cleared rows.
// Others can wait in memory.
func (db *DB) ReclaimCleared() { db.flush(true) }

func (db *DB) flush(needed bool) {
	if !db.life.enter() {
		return
	}
	defer db.life.leave()
	db.reclaim.flush(needed)
}

// Spare returns how many bytes the spare file has, and how many it is to have, by [Options.Spare].
func (db *DB) Spare() (has, want int64) { return db.spare.has.Load(), db.spare.want }

// KeepSpare makes the spare file, unless it is there. The caller has seen to it that there is clearly room: the next write that finds
// none gives the file up again.
func (db *DB) KeepSpare() error {
	if !db.life.enter() {
		return nil
	}
	defer db.life.leave()
	return db.spare.keep()
}

// GiveUpSpare removes the spare file, for what else writes to its disk.
func (db *DB) GiveUpSpare() error {
	if !db.life.enter() {
		return nil
	}
	defer db.life.leave()
	db.spare.mu.Lock()
	defer db.spare.mu.Unlock()
	return db.spare.remove()
}

// Close implements kv.DB.
func (db *DB) Close() error {
	if !db.life.close() {
		return kv.ErrClosed
	}
	db.watches.endAll()
	db.marks.timer.Stop()
	if err := db.commits.end(); err != nil {
		return err // closing Pebble could block or panic
	}
	close(db.tables.closing)
	if !db.marks.off {
		if err := db.marks.write(); err != nil {
			return fmt.Errorf("kv/local: closing the store: %w", err)
		}
		db.marks.note()
	}
	if err := errors.Join(db.store.Close(), db.disk.CloseNote(), db.dirLock.Close()); err != nil {
		return fmt.Errorf("kv/local: closing the store: %w", err)
	}
	return nil
}

// logFailed fails the store because of its log. Open and Close return such errors.
func (db *DB) logFailed(err error) {
	select {
	case <-db.tables.closing:
	default:
		if db.newest.Load() != nil {
			db.failure.set(err)
		}
	}
}

// lifetime counts active transactions, and admits none once the store is closed.
type lifetime struct {
	mu     sync.Mutex
	active int
	closed bool
	idle   chan struct{} // closed when the store is closed and no transaction is active
}

func (l *lifetime) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.active++
	return true
}

func (l *lifetime) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.active--
	if l.closed && l.active == 0 {
		close(l.idle)
	}
}

// close returns when no transaction is active. It returns false the second time.
func (l *lifetime) close() bool {
	l.mu.Lock()
	again := l.closed
	l.closed = true
	if !again && l.active == 0 {
		close(l.idle)
	}
	l.mu.Unlock()
	if again {
		return false
	}
	<-l.idle
	return true
}

// Metrics are for operators.
type Metrics struct {
	Commits   uint64 // committed transactions that wrote something
	Conflicts uint64 // runs of closures repeated after a conflict
	TooOld    uint64 // runs of closures repeated because they took too long
	Stalls    uint64 // times that all commits waited because flushes fell behind
	Gaps      int    // ranges known to be empty
	DiskBytes uint64 // used by the store's files
	Unflushed uint64 // bytes in the log whose rows no table has: the next flushes take as many more on the disk
}

// Metrics returns the numbers as they are now.
func (db *DB) Metrics() (Metrics, error) {
	if !db.life.enter() {
		return Metrics{}, kv.ErrClosed
	}
	defer db.life.leave()
	store := db.store.Metrics()
	return Metrics{
		Commits:   db.commits.count.Load(),
		Conflicts: db.stats.conflicts.Load(),
		TooOld:    db.stats.tooOld.Load(),
		Stalls:    db.reports.stalls.Load(),
		Gaps:      db.gaps.size(),
		DiskBytes: store.DiskSpaceUsage(),
		Unflushed: store.WAL.Size,
	}, nil
}
