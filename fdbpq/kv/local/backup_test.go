package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// A backup that is made while transactions commit has all that was committed
// before, and of the rest the first ones; it survives a power loss right after,
// and neither it nor the store notice what becomes of the other.
func TestBackup(t *testing.T) {
	t.Parallel()
	for _, noSync := range []bool{false, true} {
		disk := vfs.NewCrashableMem()
		db := openMem(t, Options{FS: disk, NoSync: noSync})
		write := func(i int64) {
			err := db.Update(t.Context(), func(tx kv.Tx) error {
				tx.Set(fmt.Appendf(nil, "item %08d", i), make([]byte, 1000))
				tx.Add([]byte("sum"), i)
				return nil
			})
			if err != nil && !errors.Is(err, context.Canceled) {
				t.Error(err)
			}
		}
		const backups, between = 2, 300
		var written atomic.Int64
		reached, ended := make(chan struct{}, backups), make(chan struct{})
		go func() {
			defer close(ended)
			for i := int64(1); i <= (backups+1)*between; i++ {
				write(i)
				if written.Store(i); i%between == 0 && i/between <= backups {
					reached <- struct{}{}
				}
			}
		}()
		for n := range backups {
			<-reached
			dir := fmt.Sprint("backup", n)
			before := written.Load()
			if err := db.Backup(dir); err != nil {
				t.Fatal(err)
			}
			after := disk.CrashClone(vfs.CrashCloneCfg{}) // nothing that was not synced
			copied, err := Open(dir, Options{FS: after})
			if err != nil {
				t.Fatal(err)
			}
			items, sum := contents(t, copied)
			if items < before || items > written.Load()+1 {
				t.Errorf("no sync %v: the backup has %d items, expected those %d before it, and not more than %d", noSync, items, before, written.Load()+1)
			}
			if sum != items*(items+1)/2 {
				t.Errorf("no sync %v: the backup has %d items that add up to %d", noSync, items, sum)
			}
			mustUpdate(t, copied, set("a", "of the copy"))
			if err := copied.Close(); err != nil {
				t.Error(err)
			}
			if _, err := disk.Stat(dir + durable.Partial); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("what lies beside the backup: %v", err)
			}
		}
		<-ended
		if items, sum := contents(t, db); items != written.Load() || sum != items*(items+1)/2 {
			t.Errorf("the store itself has %d items that add up to %d, expected %d", items, sum, written.Load())
		}
	}
}

func contents(t *testing.T, db *DB) (items, sum int64) {
	t.Helper()
	err := db.View(context.Background(), func(r kv.Reader) error {
		items = 0
		value, err := r.Get([]byte("sum"))
		if err != nil {
			return err
		}
		sum = int64(kv.DecodeInteger(value))
		for begin := []byte("item"); ; {
			page, err := r.Range(begin, []byte("itemz"), kv.RangeOptions{Limit: 1000})
			if err != nil || len(page) == 0 {
				return err
			}
			items += int64(len(page))
			begin = append(page[len(page)-1].Key, 0)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return items, sum
}

// A backup goes nowhere where something is, and leaves nothing half done.
func TestBackupRefused(t *testing.T) {
	t.Parallel()
	disk := &failingFS{FS: vfs.NewMem()}
	db := openMem(t, Options{FS: disk})
	mustUpdate(t, db, set("a", "1"))
	for _, name := range []string{"there", "elsewhere" + durable.Partial} {
		if err := disk.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"there", "elsewhere", "db"} {
		if err := db.Backup(dir); !errors.Is(err, fs.ErrExist) {
			t.Errorf("backup to %s: %v", dir, err)
		}
	}
	disk.fail = errors.New("no room")
	if err := db.Backup("full"); !errors.Is(err, disk.fail) {
		t.Errorf("backup to a full disk: %v", err)
	}
	disk.fail = nil
	if err := db.Backup("full"); err != nil {
		t.Errorf("backup after room was made: %v", err)
	}
	mustUpdate(t, db, set("a", "2"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup("late"); !errors.Is(err, kv.ErrClosed) {
		t.Errorf("backup of a closed store: %v", err)
	}
}

// failingFS fails to give a directory its name.
type failingFS struct {
	vfs.FS
	fail error
}

func (f *failingFS) Rename(from, to string) error {
	if f.fail != nil {
		return f.fail
	}
	return f.FS.Rename(from, to)
}

// A copy of a closed store takes the place of a later state, which stays in a directory beside it, with the other
// directories. An open store is neither copied nor replaced, and one whose restore was interrupted does not open until it ends.
func TestCopyAndRestore(t *testing.T) {
	t.Parallel()
	work := t.TempDir()
	dir, link, to := filepath.Join(work, "private"), filepath.Join(work, "store"), filepath.Join(work, "copy")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	state := func(dir, expected, next string) {
		t.Helper()
		db, err := Open(dir, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if value := mustGet(t, db, "a"); expected != "" && value != expected {
			t.Errorf("%s has %q, expected %q", dir, value, expected)
		}
		if next != "" {
			mustUpdate(t, db, set("a", next))
		}
		if _, err := Copy(dir, to+"2"); err == nil || !strings.Contains(err.Error(), "in use") {
			t.Errorf("copying an open store: %v", err)
		}
		if _, err := Restore(to, dir); err == nil || !strings.Contains(err.Error(), "in use") && !strings.Contains(err.Error(), "expected the directory of a store") {
			t.Errorf("restoring an open store: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	state(dir, "", "1")
	if size, err := Copy(link, to); err != nil || size == 0 {
		t.Fatalf("%d bytes, %v", size, err)
	}
	if _, err := Copy(link, to); !errors.Is(err, fs.ErrExist) {
		t.Errorf("copying to what is there: %v", err)
	}
	state(dir, "1", "2")
	if err := os.Mkdir(filepath.Join(dir, "backups"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Restore(filepath.Join(dir, "backups"), link); err == nil || !strings.Contains(err.Error(), "expected the directory of a store") {
		t.Errorf("restoring nothing: %v", err)
	}
	replaced, err := Restore(to, link)
	if err != nil {
		t.Fatal(err)
	}
	state(dir, "1", "3")
	state(replaced, "2", "")
	if _, err := os.Stat(filepath.Join(dir, "backups")); err != nil {
		t.Error(err)
	}

	if err := os.Mkdir(filepath.Join(dir, restoring), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, Options{}); err == nil || !strings.Contains(err.Error(), "was interrupted: run it again") {
		t.Errorf("opening it in between: %v", err)
	}
	if _, err := Restore(to, dir); err != nil {
		t.Fatal(err)
	}
	state(dir, "1", "")
}

// A store that is opened read-only has everything that was committed, takes nothing, and keeps its files as they were.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	db := mustOpen(t, Options{FS: disk})
	mustUpdate(t, db, set("a", "1"))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	names, err := disk.List("db")
	if err != nil {
		t.Fatal(err)
	}
	db = mustOpen(t, Options{FS: disk, ReadOnly: true})
	if value := mustGet(t, db, "a"); value != "1" {
		t.Errorf("read %q", value)
	}
	if err := db.Update(t.Context(), set("a", "2")); !errors.Is(err, errReadOnly) {
		t.Errorf("an update: %v", err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	after, err := disk.List("db")
	slices.Sort(names)
	slices.Sort(after)
	if err != nil || !slices.Equal(names, after) {
		t.Errorf("the files were %q and are %q, %v", names, after, err)
	}
}
