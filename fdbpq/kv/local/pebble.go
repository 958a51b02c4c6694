package local

import (
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

const memTableSize = 32 << 20

// openPebble opens the store. It checks logs and manifests first, because Pebble takes
// the first unreadable byte for the end of a file.
func (db *DB) openPebble(dir string) error {
	found, err := db.disk.checkLogs()
	if err != nil {
		return err
	}
	found.salvage = db.opts.Salvage
	switch {
	case found.missing == nil:
	case found.salvage:
		found.lost = append(found.lost, found.missing)
	default:
		return found.missing
	}
	db.disk.logCheck.Store(found)
	defer db.disk.logCheck.Store(nil)

	// The first log of a new store has an old format. Opening the store twice replaces it
	// before anything is written to it.
	before, err := pebble.Peek(dir, db.disk)
	settled := err == nil && before.Exists && before.FormatMajorVersion >= pebble.FormatNewest
	merges, err := db.openOnce(dir)
	for _, d := range found.lost {
		_ = db.noteDamage(d) // reported through Damage
	}
	if err == nil && !settled && !db.opts.Salvage {
		if err = db.store.Close(); err == nil {
			merges, err = db.openOnce(dir)
		}
	}
	if err != nil {
		return db.openError(found, err)
	}
	if !db.opts.Salvage {
		merges.start()
	}
	return nil
}

func (db *DB) openOnce(dir string) (*merging, error) {
	o, merges := db.pebbleOptions(), newMerging()
	o.Experimental.CompactionScheduler = merges
	o.EnsureDefaults()
	err := db.checkOptionsFile(dir, o)
	if err == nil {
		db.store, err = db.opening.open(dir, o)
	}
	return merges, err
}

// pebbleOptions configures Pebble for queues on a small machine: rows are short-lived,
// small, and looked up by key almost as often as they are scanned.
func (db *DB) pebbleOptions() *pebble.Options {
	o := &pebble.Options{
		FS:                 db.disk,
		ReadOnly:           db.opts.Salvage,
		FormatMajorVersion: pebble.FormatNewest,
		Logger:             pebbleLog{db},

		// A row that is set and cleared while it is in a memory table never reaches a
		// file. Commits wait when two memory tables are waiting to be flushed.
		MemTableSize:                memTableSize,
		MemTableStopWritesThreshold: 4,

		// Pebble charges memory tables to its block cache: one that is written to and
		// one that is flushed or kept for reuse. The rest is for blocks; without it every
		// seek reads a file's index from the disk.
		CacheSize: 2*memTableSize + 64<<20,

		L0CompactionThreshold: 2,
		L0StopWritesThreshold: 24,
		LBaseMaxBytes:         64 << 20,
	}
	o.CompactionConcurrencyRange = func() (int, int) { return 1, 2 }
	for i := range o.Levels {
		o.Levels[i].FilterPolicy = bloom.FilterPolicy(10)

		// With large index blocks a file has one index and not an index of indexes, so
		// that the head of a long queue is found as fast as that of a short one.
		o.Levels[i].BlockSize = 16 << 10
		o.Levels[i].IndexBlockSize = 256 << 10
	}
	o.EventListener = &pebble.EventListener{
		BackgroundError: func(err error) {
			// DataCorruption reports damage.
			if !pebble.IsCorruptionError(err) && !db.tables.knows(err) {
				db.background.error("background work of the store failed", "err", err)
			}
		},
		DataCorruption: func(info pebble.DataCorruptionInfo) { _ = db.noteCorruption(info) }, // the read returns the error
		WALCreated: func(info pebble.WALCreateInfo) {
			if info.Err != nil { // Pebble panics next, as when a log cannot be closed
				db.logFailed(fmt.Errorf("beginning a new log failed: %w", info.Err))
			}
		},
		FlushEnd: func(info pebble.FlushInfo) {
			db.tables.flushed(info.Err)
			db.manifestWritten()
		},
		CompactionEnd: func(info pebble.CompactionInfo) {
			db.tables.compacted(info.Err)
			db.manifestWritten()
		},
		DiskSlow: func(info pebble.DiskSlowInfo) {
			db.background.warn("the disk is slow", "path", info.Path, "operation", info.OpType.String(), "for", info.Duration)
		},
		WriteStallBegin: func(info pebble.WriteStallBeginInfo) {
			db.stats.stalls.Add(1)
			db.opts.Log.Debug("kv/local: commits wait for the disk", "reason", info.Reason)
		},
		WriteStallEnd: func() { db.opts.Log.Debug("kv/local: commits continue") },
	}
	return o
}

// pebbleLog logs Pebble's errors, and not its information.
type pebbleLog struct{ db *DB }

func (pebbleLog) Infof(string, ...any) {}

func (l pebbleLog) Errorf(format string, args ...any) {
	l.db.background.say(slog.LevelError, format, fmt.Sprintf(format, args...), nil)
}

// Fatalf must not return.
func (l pebbleLog) Fatalf(format string, args ...any) {
	err := fatalError(format, args)
	l.db.opening.halt(err)
	l.db.fail(err)
	panic(err)
}
