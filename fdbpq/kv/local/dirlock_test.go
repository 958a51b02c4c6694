package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Deleting the lock files does not let a second process in. The test opens the directory
// by a second name, because one process cannot open one name twice anyway.
func TestStoreIsLockedWithoutItsFile(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir, alias := filepath.Join(parent, "store"), filepath.Join(parent, "alias")
	if err := os.Symlink(dir, alias); err != nil {
		t.Fatal(err)
	}
	first, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(alias, Options{}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("opening a store that is open and lost its file LOCK: %v", err)
	}
	mustUpdate(t, first, set("a", "1"))
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := Open(alias, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if value := mustGet(t, second, "a"); value != "1" {
		t.Errorf("read %q", value)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
}

// The lock ends with the store, although a program that is just being started still has the open directory.
func TestLockEndsWithTheStore(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	inherited, err := syscall.Dup(int(db.dirLock.(directoryLock).Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(inherited)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Error(err)
	}
}

// A directory that may not be opened is not reported as in use.
func TestStoreThatMayNotBeOpened(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(file, "store"), Options{}); err == nil || strings.Contains(err.Error(), "in use") {
		t.Errorf("opening a store below a file: %v", err)
	}
}

func TestStoreIsLocked(t *testing.T) {
	t.Parallel()
	for _, fs := range []vfs.FS{vfs.Default, vfs.NewMem()} {
		dir := t.TempDir()
		if err := fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		first, err := Open(dir, Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, Options{FS: fs}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
			t.Errorf("opening a store twice: %v", err)
		}
		if err := first.Close(); err != nil {
			t.Fatal(err)
		}
		again, err := Open(dir, Options{FS: fs})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Who finds a store locked learns which process has it.
func TestLockedStoreNamesItsProcess(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/proc/locks"); err != nil {
		t.Skip("this system does not list locks")
	}
	dir := t.TempDir()
	db, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	want := fmt.Sprintf("in use by another process (pid %d%s)", os.Getpid(), unit(os.Getpid()))
	if _, err := Open(dir, Options{}); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("opening a store twice: %v, expected %s at its end", err, want)
	}
}

// The unit of a process is the service in its control groups, whichever of their versions the system has.
func TestUnitOfAProcess(t *testing.T) {
	t.Parallel()
	for groups, want := range map[string]string{
		"0::/system.slice/pqd.service\n":                     "pqd.service",
		"0::/system.slice/pqd.service/child\n":               "pqd.service",
		"12:pids:/system.slice/pqd@a.service\n0::/\n":        "pqd@a.service",
		"0::/user.slice/user@1000.service/app.slice/a.scope": "",
		"0::/user.slice/user@1000.service/pqd.service":       "pqd.service",
		"0::/\n": "", "": "",
	} {
		if got := unitOf(groups); got != want {
			t.Errorf("%q: %q, expected %q", groups, got, want)
		}
	}
	if got := unit(-1); got != "" {
		t.Errorf("no process: %q", got)
	}
}
