package logs

import (
	"bytes"
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// A note that was cut off while it was written leaves the one before it, and a
// new process goes on behind both.
func TestSyncNote(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	expect := func(want uint64) {
		t.Helper()
		var n note
		if m, err := n.read(disk, "db"); err != nil || m.LogSynced != want {
			t.Errorf("read %d, %v, expected %d", m.LogSynced, err, want)
		}
	}
	expect(0)
	name := disk.PathJoin("db", NoteName)
	for i := uint64(1); i < 6; i++ {
		var n note
		if _, err := n.read(disk, "db"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(n.write(disk, "db", Mark{Log: 7, LogSynced: i}), n.close()); err != nil {
			t.Fatal(err)
		}
		expect(i)
		for _, at := range []int{noteHead, noteHead + len(markTag) + 1} { // the tag, what it says
			whole, err := durable.Read(disk, name)
			if err != nil {
				t.Fatal(err)
			}
			flipped := bytes.Clone(whole)
			flipped[int(i%2)*noteSlot+at] ^= 1
			if err := durable.Write(disk, name, flipped); err != nil {
				t.Fatal(err)
			}
			expect(i - 1)
			if err := durable.Write(disk, name, whole); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// The first note and a later one outlive a power loss, the file's name included.
func TestSyncNoteIsDurable(t *testing.T) {
	t.Parallel()
	disk := emptyStore(t)
	var n note
	for i := uint64(1); i < 4; i++ {
		if err := n.write(disk, "db", Mark{Log: 7, LogSynced: i}); err != nil {
			t.Fatal(err)
		}
		var after note
		if m, err := after.read(disk.CrashClone(vfs.CrashCloneCfg{}), "db"); err != nil || m.LogSynced != i {
			t.Errorf("after a power loss: read %d, %v, expected %d", m.LogSynced, err, i)
		}
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}
