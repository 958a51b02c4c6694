package disk

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

var flagMount = flag.Bool("pq.mount", false, "mount a file system with FUSE")

// A process sees a file system: files and directories are made, moved and removed, and a
// directory with something in it stays. The record leads to the same content.
func TestMount(t *testing.T) {
	t.Parallel()
	if !*flagMount {
		t.Skip("no -pq.mount: it needs /dev/fuse, and root or fusermount3")
	}
	d := Mount(t, func() time.Duration { return 0 })
	at := func(name string) string { return filepath.Join(d.Dir, name) }
	do := func(errs ...error) {
		t.Helper()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
	}
	do(os.MkdirAll(at("a/deep"), 0o700), os.Mkdir(at("b"), 0o700))
	do(os.WriteFile(at("a/deep/f"), []byte("f"), 0o600), os.WriteFile(at("a/g"), []byte("g"), 0o600))
	do(os.WriteFile(at("b/g"), []byte("old"), 0o600))
	if err := os.Remove(at("a")); !errors.Is(err, syscall.ENOTEMPTY) {
		t.Errorf("removed a directory that is not empty: %v", err)
	}
	if err := os.Rename(at("a"), at("b")); !errors.Is(err, syscall.ENOTEMPTY) && !errors.Is(err, os.ErrExist) {
		t.Errorf("replaced a directory that is not empty: %v", err)
	}
	do(os.Rename(at("a/g"), at("b/g")), os.Rename(at("a"), at("b/c")))
	synced, err := os.OpenFile(at("b/c/s"), os.O_CREATE|os.O_WRONLY|os.O_SYNC, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_, err = synced.WriteString("s")
	do(err, synced.Close(), os.Mkdir(at("gone"), 0o700), os.RemoveAll(at("gone")))

	replay := NewReplay(d.Events(), Journaled)
	for more := true; more; {
		_, more = replay.Next()
	}
	for name, expected := range map[string]string{"b/c/deep/f": "f", "b/g": "g", "b/c/s": "s"} {
		content, err := os.ReadFile(at(name))
		if err != nil || string(content) != expected {
			t.Errorf("%s has %q, %v", name, content, err)
		}
		if content, is := replay.Torn(nil, Event{})[name]; !is || string(content) != expected {
			t.Errorf("%s has %q by the record", name, content)
		}
	}
	for _, name := range []string{"a", "gone", "a/g"} {
		if _, err := os.Stat(at(name)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s is still there: %v", name, err)
		}
	}
	// Of all this only what was opened for that was synced, and the names before it.
	if safe := replay.Safe(); string(safe["b/c/s"]) != "s" || len(safe["b/g"]) > 0 {
		t.Errorf("%d names are safe, s has %q, g has %q", len(safe), safe["b/c/s"], safe["b/g"])
	}
	if used := d.Used(); used != 3 {
		t.Errorf("3 bytes are in use, the disk says %d", used)
	}
}
