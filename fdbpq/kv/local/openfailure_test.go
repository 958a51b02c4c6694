package local

import (
	"errors"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// failingFrom makes writes fail, until the disk is mended: the n-th, and the later ones
// if lasting. It says whether one was met. Tables can be written: an open waits until
// they can.
func failingFrom(base vfs.FS, n int64, lasting bool) (fs vfs.FS, met, mended *atomic.Bool) {
	var writes atomic.Int64
	met, mended = new(atomic.Bool), new(atomic.Bool)
	return errorfs.Wrap(base, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if op.Kind.ReadOrWrite() == errorfs.OpIsRead || strings.HasSuffix(op.Path, ".sst") || mended.Load() {
			return nil
		}
		if at := writes.Add(1); at == n || lasting && at > n {
			met.Store(true)
			return syscall.EIO
		}
		return nil
	})), met, mended
}

// uncompacted is a store whose logs have to be replayed and whose tables have to be compacted
// when it is opened.
func uncompacted(t *testing.T) vfs.FS {
	t.Helper()
	disk := vfs.NewCrashableMem()
	const tables = 8
	for range tables {
		db := openMem(t, Options{FS: disk})
		mustUpdate(t, db, func(tx kv.Tx) error {
			for key := range byte(100) {
				tx.Set([]byte{key}, make([]byte, 1000))
			}
			return nil
		})
		disk = disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	}
	return disk
}

// A store that cannot be opened because the disk fails says so. Nothing that it has
// started in the background ends the process later.
func TestOpenOnFailingDisk(t *testing.T) {
	t.Parallel()
	disk := uncompacted(t)
	failed := 0
	for _, lasting := range []bool{false, true} {
		for n, more := int64(1), true; more; n++ {
			copied := vfs.NewMem()
			if _, err := vfs.Clone(disk, copied, "db", "db"); err != nil {
				t.Fatal(err)
			}
			fs, met, mended := failingFrom(copied, n, lasting)
			fatal := func(err error) { t.Errorf("write %d: ended the process: %v", n, err) }
			db, err := Open("db", Options{FS: fs, Log: slog.New(slog.DiscardHandler), Fatal: fatal})
			more = met.Load()
			mended.Store(true)
			switch {
			case err == nil:
				if err := db.Close(); err != nil {
					t.Errorf("write %d: %v", n, err)
				}
			case !more:
				t.Errorf("write %d was not reached: %v", n, err)
			case !errors.Is(err, syscall.EIO):
				t.Errorf("write %d: %v, expected the error of the disk", n, err)
			default:
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no failure was met")
	}
}

// A damaged file of options is replaced: no data is in it.
func TestDamagedOptionsFile(t *testing.T) {
	t.Parallel()
	for name, content := range map[string]string{"empty": "", "garbled": "[Options\x00", "another program's": "[Options]\n  comparer=mine\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			disk := vfs.NewMem()
			db := mustOpen(t, Options{FS: disk})
			mustUpdate(t, db, set("key", "value"))
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			damage := func() {
				names, err := disk.List("db")
				if err != nil {
					t.Fatal(err)
				}
				found := 0
				for _, file := range names {
					if strings.HasPrefix(file, optionsPrefix) {
						found++
						writeFile(t, disk, disk.PathJoin("db", file), content)
					}
				}
				if found == 0 {
					t.Fatalf("no such file in %q", names)
				}
			}
			damage()
			salvaging := mustOpen(t, Options{FS: disk, Salvage: true})
			if got := mustGet(t, salvaging, "key"); got != "value" {
				t.Errorf("salvaged %q", got)
			}
			if err := salvaging.Close(); err != nil {
				t.Error(err)
			}
			db = openMem(t, Options{FS: disk})
			if got := mustGet(t, db, "key"); got != "value" || len(db.Damage()) > 0 {
				t.Errorf("got %q, damage %v", got, db.Damage())
			}
		})
	}
}

func writeFile(t *testing.T, disk vfs.FS, name, content string) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(content))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// A store whose files have a format that this program does not know was written by a newer one.
func TestStoreOfNewerProgram(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	if err := mustOpen(t, Options{FS: disk}).Close(); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, "marker.format-version.") {
			if err := disk.Rename(disk.PathJoin("db", name), disk.PathJoin("db", "marker.format-version.999999.999")); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, err = Open("db", Options{FS: disk})
	if err == nil || !strings.Contains(err.Error(), "a newer program wrote the store") || !strings.Contains(err.Error(), "the format 999") {
		t.Errorf("opening it: %v", err)
	}
}
