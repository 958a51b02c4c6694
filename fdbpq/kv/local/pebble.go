package local

import (
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

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
