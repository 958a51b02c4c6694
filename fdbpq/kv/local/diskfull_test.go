package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// TestDiskFullForTables fills the disk for tables while existing logs have room. Commits
// are refused at once with the reason, reads go on, the log says it once, and the store
// continues when there is room again.
func TestDiskFullForTables(t *testing.T) {
	t.Parallel()
	var full atomic.Bool
	tries := make(chan struct{}, 1000)
	said := make(chan string, 100)
	began := time.Now()
	disk := &diskFS{FS: vfs.NewMem(), onCreate: func(name string) error {
		if full.Load() && strings.HasSuffix(name, ".sst") {
			tries <- struct{}{}
			return syscall.ENOSPC
		}
		return nil
	}}
	db := openMem(t, Options{
		FS: disk, Now: func() time.Time { return began },
		Log: slog.New(slog.NewTextHandler(lineWriter(said), nil)),
	})
	expectLine := func(level, text string) {
		t.Helper()
		select {
		case line := <-said:
			if !strings.Contains(line, "level="+level) || !strings.Contains(line, text) {
				t.Fatalf("logged %s, expected %s", line, text)
			}
		case <-patience.Late():
			t.Fatalf("did not log %s", text)
		}
	}
	full.Store(true)
	const enough = memTableSize / kv.MaxValueSize // half of it is moved to a table
	for i := range enough {
		err := db.Update(t.Context(), set(fmt.Sprint(i), strings.Repeat("x", kv.MaxValueSize)))
		if errors.Is(err, kv.ErrUnavailable) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	expectLine("ERROR", "tables cannot be written")
	for range 2 { // it tries, and tries again
		if err := db.Update(t.Context(), set("never", "")); !errors.Is(err, kv.ErrUnavailable) || !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("on a full disk: %v", err)
		}
		if value := mustGet(t, db, "0"); len(value) != kv.MaxValueSize {
			t.Errorf("read %d bytes on a full disk", len(value))
		}
		<-tries
	}
	full.Store(false)
	expectLine("INFO", "tables are written again")
	mustUpdate(t, db, set("after", "1"))
	if value := mustGet(t, db, "after") + mustGet(t, db, "never"); value != "1" {
		t.Errorf("read %q after there was room again", value)
	}
	select {
	case line := <-said:
		t.Errorf("logged %s, too", line)
	default:
	}
	if n := len(tries); n > cap(tries)/2 {
		t.Errorf("tried %d times without a pause", n)
	}
}

// lineWriter passes on what a logger writes, which is lines.
type lineWriter chan<- string

func (w lineWriter) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// A store with nothing to move to tables is in no trouble, though that is an
// error to it, and gets out of trouble that way, too.
func TestNothingForTables(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{})
	for range 2 {
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := db.tables.err(); err != nil {
			t.Error(err)
		}
		db.tables.flushed(syscall.ENOSPC)
	}
	if err := db.tables.err(); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("trouble %v", err)
	}
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	mustUpdate(t, db, set("a", "1"))
}

// A repeated problem is logged once a minute, each kind for itself, with the number of
// messages left out.
func TestNotices(t *testing.T) {
	t.Parallel()
	var said bytes.Buffer
	now := time.Now()
	n := newBackgroundLog(slog.New(slog.NewTextHandler(&said, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}})), func() time.Time { return now })
	for range 3 {
		n.error("it is broken", "err", context.Canceled)
		n.warn("it is slow")
	}
	now = now.Add(logEvery)
	for range 2 {
		n.error("it is broken")
	}
	const want = `level=ERROR msg="kv/local: it is broken" err="context canceled"
level=WARN msg="kv/local: it is slow"
level=ERROR msg="kv/local: it is broken" "not logged"=2
`
	if said.String() != want {
		t.Errorf("logged\n%s\nexpected\n%s", said.String(), want)
	}
}

// A compaction that fails is logged, and that they work again; a compaction that was cancelled is no
// trouble. Commits go on meanwhile.
func TestCompactionsThatFail(t *testing.T) {
	t.Parallel()
	said := make(chan string, 10)
	db := openMem(t, Options{Log: slog.New(slog.NewTextHandler(lineWriter(said), nil))})
	logged := func(text string) {
		t.Helper()
		select {
		case line := <-said:
			if text == "" || !strings.Contains(line, text) {
				t.Errorf("logged %q, expected %q", line, text)
			}
		default:
			if text != "" {
				t.Errorf("logged nothing, expected %q", text)
			}
		}
	}
	db.tables.compacted(fmt.Errorf("wrapped: %w", pebble.ErrCancelledCompaction))
	logged("")
	db.tables.compacted(nil)
	logged("")
	db.tables.compacted(syscall.ENOSPC)
	logged("cannot be compacted")
	mustUpdate(t, db, set("a", "1"))
	db.tables.compacted(nil)
	logged("compacted again")
}

// Pebble repeats at once what has failed: the next table waits a second, but not beyond the
// end of the store.
func TestTablesWaitAfterAFailure(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		for _, c := range []struct {
			what           string
			file           string
			flush, compact error
			closing        bool
			want           time.Duration
		}{
			{"a table in good times", "1.sst", nil, nil, false, 0},
			{"a table after a flush that failed", "1.sst", syscall.ENOSPC, nil, false, retryPause},
			{"a table after a compaction that failed", "1.sst", nil, syscall.ENOSPC, false, retryPause},
			{"a log", "1.log", syscall.ENOSPC, syscall.ENOSPC, false, 0},
			{"a table as the store closes", "1.sst", syscall.ENOSPC, nil, true, 0},
		} {
			tables := &tableHealth{background: newBackgroundLog(slog.New(slog.DiscardHandler), time.Now), closing: make(chan struct{})}
			tables.flushed(c.flush)
			tables.compacted(c.compact)
			if c.closing {
				close(tables.closing)
			}
			start := time.Now()
			f, err := tableDisk{vfs.NewMem(), tables}.Create(c.file, vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(start); waited != c.want {
				t.Errorf("%s waited %v, expected %v", c.what, waited, c.want)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	db := mustOpen(t, Options{FS: vfs.NewMem()})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-db.tables.closing:
	default:
		t.Error("a closed store lets a table wait")
	}
}

// The records that clear rows free the space of these rows, however the rows were cleared and
// however small the records are, and no call flushes what an earlier one has flushed.
func TestReclaim(t *testing.T) {
	t.Parallel()
	const rows = 60
	key := func(i int) []byte { return fmt.Appendf(nil, "item %04d", i) }
	for name, clear := range map[string]func(*testing.T, *DB){
		"purged": func(t *testing.T, db *DB) {
			mustUpdate(t, db, func(tx kv.Tx) error {
				tx.ClearRange([]byte("item"), []byte("items"))
				return nil
			})
		},
		"drained": func(t *testing.T, db *DB) {
			for i := range rows {
				mustUpdate(t, db, func(tx kv.Tx) error {
					tx.Clear(key(i))
					return nil
				})
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var flushes atomic.Int64
			disk := &diskFS{FS: vfs.NewMem(), onCreate: func(name string) error {
				if strings.HasSuffix(name, ".log") {
					flushes.Add(1)
				}
				return nil
			}}
			db := openMem(t, Options{FS: disk})
			rng := rand.NewChaCha8([32]byte{})
			for i := range rows {
				value := make([]byte, kv.MaxValueSize) // that cannot be compressed
				_, _ = rng.Read(value)
				mustUpdate(t, db, set(string(key(i)), string(value)))
			}
			if err := db.store.Flush(); err != nil {
				t.Fatal(err)
			}
			inTables := func() (size int64) {
				for _, name := range files(t, disk, ".sst") {
					info, err := disk.Stat(name)
					if err == nil { // otherwise it was removed meanwhile
						size += info.Size()
					}
				}
				return size
			}
			// A compaction may replace tables while they are counted.
			await(t, "the tables have all rows", func() bool { return inTables() >= rows*kv.MaxValueSize })
			clear(t, db)
			began := flushes.Load()
			db.Reclaim()
			await(t, "the space of cleared rows", func() bool { return inTables() < rows*kv.MaxValueSize/20 })
			db.Reclaim()
			if n := flushes.Load() - began; n != 1 {
				t.Errorf("flushed %d times", n)
			}
		})
	}
}

// While tables cannot be written, no more of them is begun: each flush begins a log, which a
// full disk would refuse.
func TestReclaimOnAFullDisk(t *testing.T) {
	t.Parallel()
	var logs atomic.Int64
	db := openMem(t, Options{FS: &diskFS{FS: vfs.NewMem(), onCreate: func(name string) error {
		if strings.HasSuffix(name, ".log") {
			logs.Add(1)
		}
		return nil
	}}})
	before := logs.Load()
	mustUpdate(t, db, set("a", "1"))
	db.ReclaimCleared()
	if n := logs.Load() - before; n != 0 {
		t.Errorf("began %d logs where no row was cleared", n)
	}
	mustUpdate(t, db, func(tx kv.Tx) error {
		tx.Clear([]byte("a"))
		return nil
	})
	db.tables.flushed(syscall.ENOSPC)
	db.Reclaim()
	if n := logs.Load() - before; n != 0 {
		t.Errorf("began %d logs", n)
	}
	db.tables.flushed(nil)
	db.ReclaimCleared()
	if n := logs.Load() - before; n != 1 {
		t.Errorf("began %d logs when there was room again, expected one", n)
	}
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range byte(100) {
			tx.Set([]byte{'r', i}, nil)
		}
		return nil
	})
	mustUpdate(t, db, func(tx kv.Tx) error { // too many rows for a record each
		tx.ClearRange([]byte("r"), []byte("s"))
		return nil
	})
	await(t, "a flush of a cleared range", func() bool {
		db.ReclaimCleared() // nothing, while the one before is under way
		return logs.Load()-before == 2
	})
}
