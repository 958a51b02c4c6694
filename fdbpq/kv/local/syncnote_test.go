package local

import (
	"errors"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
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
		var n syncNote
		if m, err := n.read(disk, "db"); err != nil || m.logSynced != want {
			t.Errorf("read %d, %v, expected %d", m.logSynced, err, want)
		}
	}
	expect(0)
	name := disk.PathJoin("db", syncNoteName)
	for i := uint64(1); i < 6; i++ {
		var n syncNote
		if _, err := n.read(disk, "db"); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(n.write(disk, "db", syncMark{log: 7, logSynced: i}), n.close()); err != nil {
			t.Fatal(err)
		}
		expect(i)
		for _, at := range []int{noteHead, noteHead + len(syncMarkTag) + 1} { // the tag, what it says
			whole := mustRead(t, disk, name)
			flip(t, disk, name, int64(i%2)*noteSlot+int64(at), 1)
			expect(i - 1)
			replace(t, disk, name, whole)
		}
	}
}

// The first note and a later one outlive a power loss, the file's name included.
func TestSyncNoteIsDurable(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	if err := disk.MkdirAll("db", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syncDirectory(disk, "."); err != nil {
		t.Fatal(err)
	}
	var n syncNote
	for i := uint64(1); i < 4; i++ {
		if err := n.write(disk, "db", syncMark{log: 7, logSynced: i}); err != nil {
			t.Fatal(err)
		}
		var after syncNote
		if m, err := after.read(disk.CrashClone(vfs.CrashCloneCfg{}), "db"); err != nil || m.logSynced != i {
			t.Errorf("after a power loss: read %d, %v, expected %d", m.logSynced, err, i)
		}
	}
	if err := n.close(); err != nil {
		t.Error(err)
	}
}
