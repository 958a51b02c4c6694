package local

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

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
