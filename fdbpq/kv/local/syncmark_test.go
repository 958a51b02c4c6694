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
	db.marks.delay = time.Millisecond
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
	db.marks.delay = time.Millisecond
	mustUpdate(t, db, set("item", "x"))
	awaitMark(t, db, disk)
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	awaitMark(t, db, disk)
}

// awaitMark waits until a mark alone covers all of the log but marks alone, and the manifest
// as it is now.
func awaitMark(t *testing.T, db *DB, disk *vfs.MemFS) {
	t.Helper()
	now := db.disk.syncMark()
	await(t, "a mark in the log", func() bool {
		content, marked := int64(0), false
		_, err := newLogDisk(snapshot(disk), "db", false).scanFile(fmt.Sprintf("db/%06d.log", now.log), true, now.log, func(c chunk) {
			alone := len(c.content) < 12+2+maxSyncMark && binary.LittleEndian.Uint32(c.content[8:]) == 0
			m, ok := parseSyncMark(c.content)
			switch {
			case !alone || !ok:
				content, marked = c.end, false
			case int64(m.logSynced) >= content && m.manifest == now.manifest && m.manifestSynced >= now.manifestSynced:
				marked = true
			}
		})
		return err == nil && marked
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
	after := snapshot(disk)
	var note syncNote
	if m, err := note.read(after, "db"); err != nil || m.log != committed.log || m.logSynced < committed.logSynced {
		t.Errorf("the note says %+v, %v; expected %+v or more", m, err, committed)
	}
	if err := after.Remove(after.PathJoin("db", syncNoteName)); err != nil {
		t.Fatal(err)
	}
	found, err := newLogDisk(after, "db", false).checkLogs()
	if err != nil || found.synced[committed.log] < int64(committed.logSynced) {
		t.Errorf("the log says that %d bytes were synced, %v; expected the %d that were", found.synced[committed.log], err, committed.logSynced)
	}
}

// While commits come one after the other, a note says how far the log is synced, and a mark
// alone waits for the end of the series.
func TestMarkWaitsForTheEnd(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	db.marks.delay = time.Hour // the test writes the marks
	expect := func(when string, alone bool) {
		t.Helper()
		mustUpdate(t, db, set("item", when))
		synced := db.disk.syncMark()
		db.marks.writeIdle()
		after := db.disk.syncMark()
		if wrote := after.logSynced > synced.logSynced; wrote != alone {
			t.Errorf("%s: a mark was written: %v, expected %v", when, wrote, alone)
		}
		if armed := db.marks.armed.Load(); armed == alone {
			t.Errorf("%s: the timer is set: %v", when, armed)
		}
		var note syncNote
		if m, err := note.read(disk, "db"); err != nil || m.logSynced != after.logSynced {
			t.Errorf("%s: the note says that %d bytes are synced, %v; expected %d", when, m.logSynced, err, after.logSynced)
		}
	}
	expect("the first commit", true)
	mustUpdate(t, db, set("item", "sets the timer"))
	expect("another commit since", false)
	db.marks.writeIdle()
	expect("the first commit of the next series", true)
}

// A store that does not sync has nothing to mark.
func TestNoMarksWithoutSync(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{NoSync: true})
	for range 2 {
		mustUpdate(t, db, set("item", "x"))
		<-db.newest.Load().durable
	}
	if db.marks.armed.Load() {
		t.Error("the timer of a mark is set")
	}
}

// Marks may be written in another order than they were made: the mark that says most counts.
func TestMarksInAnyOrder(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	early := db.disk.syncMark()
	mustUpdate(t, db, set("item", "x"))
	late := db.disk.syncMark()
	for _, m := range []syncMark{late, early} {
		if err := db.store.LogData(m.append(nil), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	found, err := newLogDisk(snapshot(disk), "db", false).checkLogs()
	if err != nil || found.synced[late.log] < int64(late.logSynced) || late.logSynced <= early.logSynced {
		t.Errorf("%d bytes count as synced, %v; expected the %d of the later mark, not the %d of the earlier", found.synced[late.log], err, late.logSynced, early.logSynced)
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
	// A record that begins with it, and is none of data for the log.
	if err := db.store.Set(forged, nil, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := reopened(snapshot(disk), func(*DB) {}); err != nil {
		t.Error(err)
	}
}

func mustMark(t *testing.T, db *DB) {
	t.Helper()
	if err := db.marks.write(); err != nil {
		t.Fatal(err)
	}
}
