package local

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// TestAnswersWaitForTheDisk holds up the disk and looks who waits.
func TestAnswersWaitForTheDisk(t *testing.T) {
	t.Parallel()
	for _, noSync := range []bool{false, true} {
		var held atomic.Bool
		release := make(chan struct{})
		db := openMem(t, Options{NoSync: noSync, FS: &diskFS{FS: vfs.NewMem(), onSync: func() error {
			if held.Load() {
				<-release
			}
			return nil
		}}})
		mustUpdate(t, db, set("a", "1"))
		held.Store(true)
		written := make(chan error, 1)
		go func() { written <- db.Update(context.Background(), set("a", "2")) }()
		await(t, "the write to be applied", func() bool { return db.applied.Load().version == 2 })

		own := errors.New("own")
		var reads atomic.Int32
		read := func(r kv.Reader) error {
			value, err := r.Get([]byte("a"))
			reads.Add(1)
			if string(value) != "2" {
				t.Errorf("read %q, want what was applied", value)
			}
			return err
		}
		ctx := context.Background()
		answers := []func() error{
			func() error { return db.View(ctx, read) },
			func() error { return db.View(ctx, func(r kv.Reader) error { return errors.Join(read(r), own) }) },
			func() error { return db.Update(ctx, func(tx kv.Tx) error { return read(tx) }) },
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error { return errors.Join(read(tx.Snapshot()), own) })
			},
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error {
					tx.Set(make([]byte, kv.MaxKeySize+1), nil)
					return read(tx)
				})
			},
			func() error {
				return db.Update(ctx, func(tx kv.Tx) error {
					tx.ClearRange([]byte("x"), []byte("y"))
					return read(tx)
				})
			},
		}
		var wg sync.WaitGroup
		var answered atomic.Int32
		for _, answer := range answers {
			wg.Go(func() {
				if err := answer(); err != nil && !errors.Is(err, own) && !errors.Is(err, kv.ErrTooLarge) {
					t.Error(err)
				}
				answered.Add(1)
			})
		}
		if noSync {
			wg.Wait()
			if err := <-written; err != nil {
				t.Error(err)
			}
			close(release)
			continue
		}
		// Transactions that read nothing need not wait, and do not.
		if err := db.View(ctx, func(kv.Reader) error { return nil }); err != nil {
			t.Error(err)
		}
		if err := db.Update(ctx, func(kv.Tx) error { return own }); err != own {
			t.Error(err)
		}
		await(t, "everybody to have read", func() bool {
			return int(reads.Load()) == len(answers) && db.store.Metrics().Snapshots.Count == 0
		})
		for range 1000 {
			runtime.Gosched()
		}
		if n := answered.Load(); n > 0 {
			t.Errorf("%d answers before the disk had what they rest on", n)
		}
		select {
		case <-written:
			t.Error("a commit was acknowledged before it was on the disk")
		default:
		}
		close(release)
		wg.Wait()
		if err := <-written; err != nil {
			t.Error(err)
		}
	}
}

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
	now := db.disk.Synced()
	await(t, "a mark in the log", func() bool {
		content, marked := int64(0), false
		scanLog(t, snapshot(disk), "db", now.Log, func(c logs.Chunk) {
			alone := len(c.Content) < 12+2+logs.MaxMark && binary.LittleEndian.Uint32(c.Content[8:]) == 0
			m, ok := logs.ParseMark(c.Content)
			switch {
			case !alone || !ok:
				content, marked = c.End, false
			case int64(m.LogSynced) >= content && m.Manifest == now.Manifest && m.ManifestSynced >= now.ManifestSynced:
				marked = true
			}
		})
		return marked
	})
}

// A store that was closed in order has a mark behind its last commit.
func TestMarkAtClose(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := mustOpen(t, Options{FS: disk})
	mustUpdate(t, db, set("item", "x"))
	committed := db.disk.Synced()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	after := snapshot(disk)
	if m := noted(t, after, "db"); m.Log != committed.Log || m.LogSynced < committed.LogSynced {
		t.Errorf("the note says %+v; expected %+v or more", m, committed)
	}
	if err := after.Remove(after.PathJoin("db", logs.NoteName)); err != nil {
		t.Fatal(err)
	}
	if m := marked(t, after, committed.Log); m.LogSynced < committed.LogSynced {
		t.Errorf("the log says that %d bytes were synced; expected the %d that were", m.LogSynced, committed.LogSynced)
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
		synced := db.disk.Synced()
		db.marks.writeIdle()
		after := db.disk.Synced()
		if wrote := after.LogSynced > synced.LogSynced; wrote != alone {
			t.Errorf("%s: a mark was written: %v, expected %v", when, wrote, alone)
		}
		if armed := db.marks.armed.Load(); armed == alone {
			t.Errorf("%s: the timer is set: %v", when, armed)
		}
		if m := noted(t, disk, "db"); m.LogSynced != after.LogSynced {
			t.Errorf("%s: the note says that %d bytes are synced; expected %d", when, m.LogSynced, after.LogSynced)
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
	early := db.disk.Synced()
	mustUpdate(t, db, set("item", "x"))
	late := db.disk.Synced()
	for _, m := range []logs.Mark{late, early} {
		if err := db.store.LogData(m.Append(nil), pebble.Sync); err != nil {
			t.Fatal(err)
		}
	}
	if late.LogSynced <= early.LogSynced {
		t.Fatalf("the later mark has %d bytes, the earlier %d: the test proves nothing", late.LogSynced, early.LogSynced)
	}
	after := snapshot(disk)
	log := fmt.Sprintf("db/%06d.log", late.Log)
	flip(t, after, log, int64(late.LogSynced)-1, 1)
	var damage *Damage
	if err := reopened(after, func(*DB) {}); !errors.As(err, &damage) || damage.File != log {
		t.Errorf("a bit flipped between what the marks say: %v, expected damage in %s", err, log)
	}
}

// The content of an item never counts as a mark, wherever it is in a log.
func TestForgedMark(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	forged := logs.Mark{Log: db.disk.Synced().Log, LogSynced: 1 << 40, Manifest: db.disk.Synced().Manifest, ManifestSynced: 1 << 40}.Append(nil)
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

// scanLog calls use for the chunks of a log.
func scanLog(t *testing.T, disk vfs.FS, dir string, number uint64, use func(logs.Chunk)) {
	t.Helper()
	f, err := disk.Open(fmt.Sprintf("%s/%06d.log", dir, number))
	if err != nil {
		t.Fatal(err)
	}
	_, err = logs.Scan(f, true, uint32(number), use)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
}

// marked returns the last mark in a log.
func marked(t *testing.T, disk vfs.FS, number uint64) (last logs.Mark) {
	t.Helper()
	scanLog(t, disk, "db", number, func(c logs.Chunk) {
		if m, ok := logs.ParseMark(c.Content); c.First && ok {
			last = m
		}
	})
	return last
}

// noted returns the mark of the note.
func noted(t *testing.T, disk vfs.FS, dir string) logs.Mark {
	t.Helper()
	m, err := logs.ReadNote(disk, dir)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func mustMark(t *testing.T, db *DB) {
	t.Helper()
	if err := db.marks.write(); err != nil {
		t.Fatal(err)
	}
}
