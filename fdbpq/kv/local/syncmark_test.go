package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Behind the last commit of a series a mark is written, so that the commit is not
// taken for what a power loss cut off.
func TestMarkWhenIdle(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	db.idleMarks.delay = time.Millisecond
	for i := range 3 {
		mustUpdate(t, db, set(fmt.Sprint("item ", i), "x"))
		awaitMark(t, db, disk)
	}
}

// Also behind the end of a flush, which is noted in the manifest.
func TestMarkAfterFlush(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	db.idleMarks.delay = time.Millisecond
	mustUpdate(t, db, set("item", "x"))
	awaitMark(t, db, disk)
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitMark(t, db, disk)
}

// awaitMark waits until the log ends in a mark alone that covers all before it,
// and the manifest as it is now.
func awaitMark(t *testing.T, db *DB, disk *vfs.MemFS) {
	t.Helper()
	now := db.disk.syncMark()
	await(t, "a mark in the log", func() bool {
		var last chunk
		var alone bool
		_, err := newLogDisk(snapshot(disk), "db", false).scanFile(fmt.Sprintf("db/%06d.log", now.log), true, now.log, func(c chunk) {
			last, alone = c, len(c.content) < 12+2+maxSyncMark && binary.LittleEndian.Uint32(c.content[8:]) == 0
			if m, ok := parseSyncMark(c.content); ok {
				alone = alone && int64(m.logSynced) >= last.at && m.manifest == now.manifest && m.manifestSynced >= now.manifestSynced
			}
		})
		return err == nil && alone
	})
}

// A store that was closed in order has a mark behind its last commit.
func TestMarkAtClose(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := mustOpen(t, Options{FS: disk})
	mustUpdate(t, db, set("item", "x"))
	committed := db.disk.syncMark()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	found, err := newLogDisk(snapshot(disk), "db", false).checkLogs()
	if err != nil || found.synced[committed.log] < int64(committed.logSynced) {
		t.Errorf("the log says that %d bytes were synced, %v; expected the %d that were", found.synced[committed.log], err, committed.logSynced)
	}
}

// The content of an item never counts as a mark, wherever it is in a log.
func TestForgedMark(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	forged := syncMark{log: db.disk.syncMark().log, logSynced: 1 << 40, manifest: db.disk.syncMark().manifest, manifestSynced: 1 << 40}.append(nil)
	record := append(append(make([]byte, 12), byte(pebble.InternalKeyKindLogData), byte(len(forged))), forged...)
	for i := range record {
		value := slices.Concat(make([]byte, i), bytes.Repeat(record, 70_000/len(record)))
		mustUpdate(t, db, set(fmt.Sprint("item ", i), string(value)))
	}
	if err := reopened(snapshot(disk), func(*DB) {}); err != nil {
		t.Error(err)
	}
}

func mustMark(t *testing.T, db *DB) {
	t.Helper()
	if err := db.writeSyncMark(); err != nil {
		t.Fatal(err)
	}
}
