package local

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// After a kill, a bit that is wrong somewhere in what was synced is damage, which
// Open reports with the file's name: no acknowledged transaction is taken for
// something that a power loss cut off. Small items stand in the first log of a
// new store, large ones in several, and records that fill blocks among them.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	for name, size := range map[string]func(i int) int{
		"Small": func(int) int { return 200 },
		"Large": func(i int) int { return i * 997 % 20_000 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const items = 200
			disk := vfs.NewCrashableMem()
			db := openMem(t, Options{FS: disk})
			for i := range items {
				mustUpdate(t, db, set(fmt.Sprintf("item %04d", i), strings.Repeat("x", size(i))))
			}
			mustMark(t, db)
			killed := snapshot(disk)
			newest := db.disk.Synced()
			log, synced := fmt.Sprintf("db/%06d.log", newest.Log), int64(newest.LogSynced)
			rng := rand.New(rand.NewPCG(1, 1))
			for i := range 20 {
				after := snapshot(killed)
				at := synced - 1 - synced*int64(i)/20 - rng.Int64N(synced/20)
				flip(t, after, log, at, 1<<rng.IntN(8))
				err := reopened(after, func(db *DB) {
					for i := range items {
						if len(mustGet(t, db, fmt.Sprintf("item %04d", i))) != size(i) {
							t.Errorf("a bit flipped at %d of %d: item %d is lost and nobody knows", at, synced, i)
						}
					}
				})
				var damage *Damage
				switch {
				case i == 0 && err == nil: // the mark itself is in the last bytes
				case !errors.Is(err, kv.ErrDamaged) || !errors.As(err, &damage) || damage.File != log:
					t.Errorf("a bit flipped at %d of %d: %v, expected damage in %s", at, synced, err, log)
				}
			}
		})
	}
}

// A log that was cut short has lost the marks of its end as well; a log that is gone
// has no marks at all.
func TestLogCutShort(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	for i := range 50 {
		mustUpdate(t, db, set(fmt.Sprintf("item %04d", i), strings.Repeat("x", 1000)))
	}
	db.marks.writeIdle()
	killed := snapshot(disk)
	newest := db.disk.Synced()
	log, synced := fmt.Sprintf("db/%06d.log", newest.Log), int64(newest.LogSynced)
	for i := range int64(21) {
		after := snapshot(killed)
		if i == 20 {
			if err := after.Remove(log); err != nil {
				t.Fatal(err)
			}
		} else {
			replace(t, after, log, mustRead(t, killed, log)[:synced*i/20])
		}
		err := reopened(after, func(*DB) {})
		if damage := (*Damage)(nil); !errors.Is(err, kv.ErrDamaged) || !errors.As(err, &damage) || damage.File != log {
			t.Errorf("cut %d of 20: %v, expected damage in %s", i, err, log)
		}
	}
	if err := reopened(killed, func(*DB) {}); err != nil {
		t.Error(err)
	}
}

// A manifest that cannot be read to where it was synced is damage, too: what it
// says last is which logs and tables there are.
func TestDamagedManifest(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	for i := range 4 {
		mustUpdate(t, db, set(fmt.Sprint("item ", i), "x"))
		if err := db.store.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	mustMark(t, db)
	killed := snapshot(disk)
	newest := db.disk.Synced()
	manifest := fmt.Sprintf("db/%s%06d", logs.ManifestPrefix, newest.Manifest)
	synced := marked(t, killed, newest.Log).ManifestSynced
	if synced == 0 {
		t.Fatal("nothing of the manifest counts as synced: the test proves nothing")
	}
	for at := range int64(synced) {
		if at%17 != 0 {
			continue
		}
		after := snapshot(killed)
		flip(t, after, manifest, at, 1<<(at%8))
		var damage *Damage
		err := reopened(after, func(*DB) {})
		if !errors.Is(err, kv.ErrDamaged) || !errors.As(err, &damage) || damage.File != manifest {
			t.Errorf("a bit flipped at %d of %d: %v, expected damage in %s", at, synced, err, manifest)
		}
	}
}

// A table that is damaged fails what needs it, by a name of its own and for good,
// and nothing else; the log has it once.
func TestDamagedTable(t *testing.T) {
	t.Parallel()
	const items = 2000
	disk := vfs.NewMem()
	db := mustOpen(t, Options{FS: disk})
	mustUpdate(t, db, func(tx kv.Tx) error {
		rng := rand.NewChaCha8([32]byte{})
		for i := range items {
			value := make([]byte, 100) // that cannot be compressed
			_, _ = rng.Read(value)
			tx.Set(fmt.Appendf(nil, "item %04d", i), value)
		}
		return nil
	})
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tables := files(t, disk, ".sst")
	if len(tables) != 1 {
		t.Fatalf("the store has the tables %v, expected one", tables)
	}
	flip(t, disk, tables[0], 100_000, 1)

	var log bytes.Buffer
	db = openMem(t, Options{FS: disk, Log: slog.New(slog.NewTextHandler(&log, nil))})
	if all := db.Damage(); len(all) != 0 {
		t.Errorf("damage is known before anything was read: %v", all)
	}
	failed := 0
	for i := 0; i < items; i += 20 { // a failure takes Pebble long: it looks for the bit that is wrong
		key := fmt.Appendf(nil, "item %04d", i)
		err := db.View(t.Context(), func(r kv.Reader) error { _, err := r.Get(key); return err })
		if errors.Is(err, kv.ErrDamaged) {
			failed++
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if failed < 2 || failed > 20 {
		t.Errorf("%d of %d items cannot be read, expected those of one block", failed, items/20)
	}
	for _, read := range []func(kv.Tx) error{
		func(tx kv.Tx) error {
			_, err := tx.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: items})
			return err
		},
		func(tx kv.Tx) error {
			_, err := tx.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: items, Reverse: true})
			return err
		},
		func(tx kv.Tx) error { tx.ClearRange([]byte("item 0900"), []byte("item 0940")); return nil },
		func(tx kv.Tx) error {
			tx.Add([]byte("count"), 5)
			for i := 900; i < 950; i++ {
				tx.Add(fmt.Appendf(nil, "item %04d", i), 1)
			}
			return nil
		},
	} {
		if err := db.Update(t.Context(), read); !errors.Is(err, kv.ErrDamaged) || errors.Is(err, kv.ErrUnavailable) {
			t.Errorf("%v, expected %v", err, kv.ErrDamaged)
		}
	}
	mustUpdate(t, db, set("another", "item"))
	mustUpdate(t, db, func(tx kv.Tx) error { tx.Add([]byte("count"), 1); return nil })
	if n := kv.DecodeInteger([]byte(mustGet(t, db, "count"))); n != 1 {
		t.Errorf("the counter is %d: what was never committed counts", n)
	}
	all := db.Damage()
	if len(all) != 1 || all[0].File != tables[0] || string(all[0].Begin) != "item 0000" || string(all[0].End) != fmt.Sprintf("item %04d", items-1) {
		t.Errorf("damage found: %+v, expected it in %s, and all items", all, tables[0])
	}
	if lines := strings.Count(log.String(), "\n"); lines != 1 || !strings.Contains(log.String(), tables[0]) {
		t.Errorf("logged %d lines, expected one with the name of the file:\n%.2000s", lines, log.String())
	}
}

// snapshot is the disk after a kill of the process: the kernel keeps what was
// written.
func snapshot(disk *vfs.MemFS) *vfs.MemFS {
	return disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 1))})
}

// files are the names of the store's files that end so.
func files(t *testing.T, disk vfs.FS, suffix string) (names []string) {
	t.Helper()
	all, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range all {
		if strings.HasSuffix(name, suffix) {
			names = append(names, disk.PathJoin("db", name))
		}
	}
	return names
}

// flip changes bits of a file.
func flip(t *testing.T, disk vfs.FS, name string, at int64, bits byte) {
	t.Helper()
	bytes := mustRead(t, disk, name)
	bytes[at] ^= bits
	replace(t, disk, name, bytes)
}

// mustRead returns the content of a file.
func mustRead(t *testing.T, disk vfs.FS, name string) []byte {
	t.Helper()
	f, err := disk.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	bytes, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return bytes
}

func replace(t *testing.T, disk vfs.FS, name string, content []byte) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write(content)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// reopened opens the store, looks at it and closes it.
func reopened(disk vfs.FS, look func(*DB)) error {
	db, err := Open("db", Options{FS: disk})
	if err != nil {
		return err
	}
	look(db)
	return db.Close()
}

// A log that Pebble has removed in good order is not missed.
func TestRemovedLog(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("item", "x"))
	db.marks.writeIdle()
	newest := db.disk.Synced()
	log := fmt.Sprintf("db/%06d.log", newest.Log)
	manifest := func(number uint64) string { return fmt.Sprintf("db/%s%06d", logs.ManifestPrefix, number) }
	for what, newer := range map[string]bool{"and no newer manifest": false, "and a newer manifest": true} {
		after := snapshot(disk)
		if newer {
			if err := after.Link(manifest(newest.Manifest), manifest(newest.Manifest+1)); err != nil {
				t.Fatal(err)
			}
		}
		if err := after.Remove(log); err != nil {
			t.Fatal(err)
		}
		_, err := logs.NewDisk(after, "db", false, func(error) {}).Check(false)
		if (err == nil) != newer || err != nil && !errors.Is(err, kv.ErrDamaged) {
			t.Errorf("no log %s: %v", what, err)
		}
	}
}

// A disk that cannot read a file, and content that Pebble calls corrupt, are damage of that
// file.
func TestUnreadableFile(t *testing.T) {
	t.Parallel()
	db := openMem(t, Options{Log: slog.New(slog.DiscardHandler)})
	const file = "db/000007.sst"
	unreadable := &fs.PathError{Op: "read", Path: file, Err: syscall.EIO}
	if err := db.damages.readError(unreadable); !errors.Is(err, kv.ErrDamaged) {
		t.Errorf("reading: %v", err)
	}
	if found := db.Damage(); len(found) != 1 || found[0].File != file {
		t.Errorf("the damage is %+v, expected that of %s", found, file)
	}
	var damage *Damage
	if err := db.damages.openError(&logs.Check{Reading: "db/000004.log"}, fmt.Errorf("replay: %w", pebble.ErrCorruption)); !errors.As(err, &damage) || damage.File != "db/000004.log" {
		t.Errorf("opening: %v, expected damage of the log", err)
	}
}

// A table that is cut off, or that is missing, is damage: what follows from that says how to go on.
func TestTableOfWrongSize(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("item", strings.Repeat("x", 1000)))
	for range 2 { // what is in the log goes into a table
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = openMem(t, Options{FS: disk})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	tables := files(t, disk, ".sst")
	if len(tables) == 0 {
		t.Fatal("the store has no table")
	}
	name := tables[0]
	expect := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		var found *Damage
		_, err = Open("db", Options{FS: disk, Log: slog.New(slog.DiscardHandler)})
		if !errors.As(err, &found) || !strings.HasSuffix(found.File, disk.PathBase(name)) {
			t.Errorf("%s is %s: %v, expected damage of it", name, what, err)
		}
	}
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = f.Close()
	}
	expect("cut off", err)
	expect("missing", disk.Remove(name))
}

// A store that is salvaged has all that can be read, on both sides of damage in
// a table and in a log, and is not changed.
func TestSalvage(t *testing.T) {
	t.Parallel()
	const items = 3000
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	rng := rand.NewChaCha8([32]byte{})
	write := func(from, to int) {
		mustUpdate(t, db, func(tx kv.Tx) error {
			for i := from; i < to; i++ {
				value := make([]byte, 100) // that cannot be compressed
				_, _ = rng.Read(value)
				tx.Set(fmt.Appendf(nil, "item %04d", i), value)
			}
			return nil
		})
	}
	write(0, items-500)
	if err := db.store.Flush(); err != nil {
		t.Fatal(err)
	}
	for i := items - 500; i < items; i += 10 {
		write(i, i+10)
	}
	mustMark(t, db)
	killed := snapshot(disk)
	log, tables := fmt.Sprintf("db/%06d.log", db.disk.Synced().Log), files(t, killed, ".sst")
	flip(t, killed, log, 40_000, 4)
	flip(t, killed, tables[0], 100_000, 1)

	if err := reopened(killed, func(*DB) {}); !errors.Is(err, kv.ErrDamaged) {
		t.Fatalf("open: %v, expected %v", err, kv.ErrDamaged)
	}
	before, err := killed.List("db")
	if err != nil {
		t.Fatal(err)
	}
	salvaged := mustOpen(t, Options{FS: killed, Salvage: true, Log: slog.New(slog.DiscardHandler)})
	found := make(map[string]bool)
	for begin := []byte("item"); begin != nil; {
		var page []kv.Pair
		err := salvaged.View(t.Context(), func(r kv.Reader) (err error) {
			page, err = r.Range(begin, []byte("items"), kv.RangeOptions{Limit: 400})
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if len(page) > 400 {
			t.Errorf("a page has %d items, expected 400 at most", len(page))
		}
		begin = nil
		for _, pair := range page {
			found[string(pair.Key)] = true
			begin = keyAfter(pair.Key)
		}
	}
	missing := func(from, to int) (n int) {
		for i := from; i < to; i++ {
			if !found[fmt.Sprintf("item %04d", i)] {
				n++
			}
		}
		return n
	}
	if n := missing(0, items-500); n < 50 || n > 400 {
		t.Errorf("%d items of the table are missing, expected those of one block", n)
	}
	if n := missing(items-500, items); n != 10 {
		t.Errorf("%d items of the log are missing, expected the 10 of one transaction", n)
	}
	if n := len(salvaged.Damage()); n != 2 || salvaged.Skipped() == 0 {
		t.Errorf("damage of %d files is known, expected a log and a table, and %d times something was skipped", n, salvaged.Skipped())
	}
	err = salvaged.View(t.Context(), func(r kv.Reader) error {
		page, err := r.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: 400, MaxBytes: 1000})
		if err == nil && (len(page) == 0 || len(page) > 20) {
			t.Errorf("1000 bytes have %d items", len(page))
		}
		for i := range items {
			if key := fmt.Sprintf("item %04d", i); err == nil && !found[key] {
				var value []byte
				if value, err = r.Get([]byte(key)); len(value) > 0 {
					t.Errorf("%s, which the pages do not have, has a value", key)
				}
			}
		}
		if _, err := r.Range([]byte("item"), []byte("items"), kv.RangeOptions{Limit: 1, Reverse: true}); !errors.Is(err, errReadOnly) {
			t.Errorf("a range from its end: %v", err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if err := salvaged.Update(t.Context(), set("item", "new")); !errors.Is(err, errReadOnly) {
		t.Errorf("a write: %v", err)
	}
	if err := salvaged.Close(); err != nil {
		t.Error(err)
	}
	if after, err := killed.List("db"); err != nil || len(after) != len(before) {
		t.Errorf("there were %d files before and are %d, %v", len(before), len(after), err)
	}
}

// A transaction of which a part is damaged in the log is left out as a whole.
func TestSalvageLeavesOutTornTransactions(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("before", "1"))
	mustUpdate(t, db, func(tx kv.Tx) error {
		for i := range 40 {
			tx.Set(fmt.Appendf(nil, "large %02d", i), make([]byte, 5000))
		}
		return nil
	})
	mustUpdate(t, db, set("behind", "2"))
	mustMark(t, db)
	killed := snapshot(disk)
	flip(t, killed, fmt.Sprintf("db/%06d.log", db.disk.Synced().Log), 80_000, 4) // of 200,000
	salvaged := openMem(t, Options{FS: killed, Salvage: true, Log: slog.New(slog.DiscardHandler)})
	for key, want := range map[string]string{"before": "1", "large 00": "", "large 39": "", "behind": "2"} {
		if got := mustGet(t, salvaged, key); got != want {
			t.Errorf("%s has %d bytes, expected %q", key, len(got), want)
		}
	}
}
