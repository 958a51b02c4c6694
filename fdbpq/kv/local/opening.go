package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// opening opens the store. It lets an open fail where Pebble would end the process: Pebble writes tables in the
// background while it opens a store, and when it cannot record them in its manifest, or sync a directory, it panics
// or calls a function that must not return. No transaction has been answered by then, so nothing is lost.
type opening struct {
	underWay  atomic.Bool
	failed    chan error
	hidden    string // name of a file that the directory does not list; "": none
	abandoned bool   // Pebble's goroutines stay, so the directory stays locked

	disk    *logs.Disk
	salvage bool
	reads   bool // nothing may change
	damages *damages
	reports *reports
	log     *slog.Logger
}

func (o *opening) open(dir string, options *pebble.Options) (*pebble.DB, error) {
	o.underWay.Store(true)
	defer o.underWay.Store(false)
	var store *pebble.DB
	opened := make(chan error, 1)
	go func() {
		var err error
		store, err = pebble.Open(dir, options)
		opened <- err
	}()
	select {
	case err := <-opened:
		return store, err
	case err := <-o.failed:
		o.abandoned = true
		return nil, err
	}
}

// halt makes a running open fail and does not return. If no open runs, it does nothing.
func (o *opening) halt(err error) {
	if !o.underWay.Load() {
		return
	}
	select {
	case o.failed <- err:
	default: // the first failure counts
	}
	select {}
}

// openingDisk is a file system on which an open fails when a directory cannot be synced.
type openingDisk struct {
	vfs.FS
	opening *opening
}

// Unwrap implements vfs.FS.
func (d openingDisk) Unwrap() vfs.FS { return d.FS }

// List implements vfs.FS.
func (d openingDisk) List(dir string) ([]string, error) {
	names, err := d.FS.List(dir)
	return slices.DeleteFunc(names, func(name string) bool { return name != "" && name == d.opening.hidden }), err
}

// OpenDir implements vfs.FS.
func (d openingDisk) OpenDir(name string) (vfs.File, error) {
	f, err := d.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return openingDir{f, d.opening}, nil
}

type openingDir struct {
	vfs.File
	opening *opening
}

// Sync implements vfs.File.
func (d openingDir) Sync() error {
	err := d.File.Sync()
	if err != nil {
		d.opening.halt(err)
	}
	return err
}

// fatalError is an error that Pebble describes. It wraps the error among args.
func fatalError(format string, args []any) error {
	text := fmt.Sprintf(format, args...)
	for _, arg := range args {
		if err, is := arg.(error); is {
			return &describedError{text, err}
		}
	}
	return &describedError{text, nil}
}

// describedError is an error with the text of an error that wraps it.
type describedError struct {
	text  string
	cause error
}

func (e *describedError) Error() string { return e.text }
func (e *describedError) Unwrap() error { return e.cause }

const optionsPrefix = "OPTIONS-"

// checkOptionsFile checks the file with the options that Pebble runs with. Pebble refuses to
// open a store whose newest options file it cannot read. The program has the options too,
// so such a file is removed, or hidden if nothing may change.
func (o *opening) checkOptionsFile(dir string, options *pebble.Options) error {
	names, err := o.disk.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // the store is new
	}
	if err != nil {
		return err
	}
	newest, number := "", uint64(0)
	for _, name := range names {
		numeral, is := strings.CutPrefix(name, optionsPrefix)
		if n, err := strconv.ParseUint(numeral, 10, 64); is && err == nil && n >= number {
			newest, number = name, n
		}
	}
	if newest == "" {
		return nil
	}
	path := o.disk.PathJoin(dir, newest)
	problem := o.readOptionsFile(dir, path, options)
	if problem == nil {
		return nil
	}
	if o.reads {
		o.hidden = newest
		return nil
	}
	o.log.Warn("kv/local: removing a damaged file that holds no data", "file", path, "err", problem.Error())
	if err := o.disk.Remove(path); err != nil {
		return fmt.Errorf("%s is damaged and holds no data, but removing it failed: %w", path, err)
	}
	return nil
}

// readOptionsFile returns the reason for which Pebble would refuse the file.
func (o *opening) readOptionsFile(dir, path string, options *pebble.Options) error {
	f, err := o.disk.Open(path)
	if err != nil {
		return err
	}
	text, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return options.CheckCompatibility(dir, string(text))
}

const memTableSize = 32 << 20

// openPebble opens the store. It checks logs and manifests first, because Pebble takes
// the first unreadable byte for the end of a file.
func (o *opening) openPebble(dir string) (*pebble.DB, error) {
	found, err := o.disk.Check(o.salvage)
	if err != nil {
		return nil, err
	}
	defer o.disk.OpenAs(found)()

	// The first log of a new store has an old format. Opening the store twice replaces it
	// before anything is written to it.
	before, err := pebble.Peek(dir, o.disk)
	settled := err == nil && before.Exists && before.FormatMajorVersion >= pebble.FormatNewest
	store, compacting, err := o.openOnce(dir)
	for _, d := range found.Lost {
		_ = o.damages.note(d) // reported through Damage
	}
	if err == nil && !settled && !o.reads {
		if err = store.Close(); err == nil {
			store, compacting, err = o.openOnce(dir)
		}
	}
	if err != nil {
		return nil, o.damages.openError(found, err)
	}
	if !o.reads {
		compacting.start()
	}
	return store, nil
}

func (o *opening) openOnce(dir string) (store *pebble.DB, compacting *compaction, err error) {
	options := pebbleOptions(o.disk, o.reads)
	o.reports.listen(options)
	compacting = newCompaction()
	options.Experimental.CompactionScheduler = compacting
	options.EnsureDefaults()
	if err = o.checkOptionsFile(dir, options); err == nil {
		store, err = o.open(dir, options)
	}
	return store, compacting, err
}

// pebbleOptions configures Pebble for queues on a small machine: rows are short-lived,
// small, and looked up by key almost as often as they are scanned.
func pebbleOptions(disk *logs.Disk, readOnly bool) *pebble.Options {
	o := &pebble.Options{
		FS:                 disk,
		ReadOnly:           readOnly,
		FormatMajorVersion: pebble.FormatNewest,

		// A row that is set and cleared while it is in a memory table never reaches a
		// file. Commits wait when two memory tables are waiting to be flushed.
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,

		// Pebble charges two memory tables to its block cache: the one that is written to, and the one that is
		// flushed or kept for reuse. The rest is for blocks; without it every seek reads a file's index from the
		// disk.
		CacheSize: 2*memTableSize + 64<<20,

		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 24,
		LBaseMaxBytes:         64 << 20,
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)

		// With large index blocks a file has one index instead of an index of indexes, so the head of a long queue
		// is found as fast as the head of a short one.
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].IndexBlockSize = 256 << 10
	}
	return o
}

// reports passes Pebble's reports on to the parts of the store. It implements pebble.Logger.
type reports struct {
	tables     *tableHealth
	damages    *damages
	marks      *syncMarks
	opening    *opening
	failure    *failure
	logFailed  func(error)
	background *backgroundLog
	stalls     atomic.Uint64 // times that all commits waited because flushes fell behind
}

// listen has Pebble report to r.
func (r *reports) listen(o *pebble.Options) {
	o.Logger = r
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			// DataCorruption reports damage.
			if !pebble.IsCorruptionError(err) && !r.tables.knows(err) {
				r.background.error("background work of the store failed", "err", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { _ = r.damages.noteCorruption(info) }, // the read returns the error
		WALCreated: func(info pebble.WALCreateInfo) {
			if info.Err != nil { // Pebble panics next, as when a log cannot be closed
				r.logFailed(fmt.Errorf("beginning a new log failed: %w", info.Err))
			}
		},
		FlushEnd: func(info pebble.FlushInfo) {
			r.tables.flushed(info.Err)
			r.marks.manifestWritten()
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			r.tables.compacted(info.Err)
			r.marks.manifestWritten()
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			r.background.warn("the disk is slow", "path", info.Path, "operation", info.OpType.String(), "for", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			r.stalls.Add(1)
			r.background.log.Debug("kv/local: commits wait for the disk", "reason", info.Reason)
		},
		WriteStallEnd: func() { r.background.log.Debug("kv/local: commits continue") },
	}
}

// Infof does nothing: only Pebble's errors are logged.
func (r *reports) Infof(string, ...any) {}

func (r *reports) Errorf(format string, args ...any) {
	r.background.say(slog.LevelError, format, fmt.Sprintf(format, args...), nil)
}

// Fatalf must not return.
func (r *reports) Fatalf(format string, args ...any) {
	err := fatalError(format, args)
	r.opening.halt(err)
	r.failure.set(err)
	panic(err)
}
