package durable

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// After a power loss a file that was replaced has the new content, name included; one that was being replaced has the old
// or the new.
func TestReplaceOutlivesPowerLoss(t *testing.T) {
	t.Parallel()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	disk := vfs.NewCrashableMem()
	if content, err := Read(disk, "note"); content != nil || err != nil {
		t.Fatalf("read %q, %v where no file is", content, err)
	}
	before := ""
	for i := range 20 {
		next := fmt.Sprint("content ", i)
		cut := func() {
			t.Helper()
			after := disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: rng.IntN(101), RNG: rng})
			if content, err := Read(after, "note"); err != nil || string(content) != before && string(content) != next {
				t.Errorf("after a power loss the file has %q, %v: expected %q or %q", content, err, before, next)
			}
		}
		if err := Replace(watched{disk, cut}, "note", []byte(next)); err != nil {
			t.Fatal(err)
		}
		before = next
		cut()
	}
}

// watched calls cut at each step that names files.
type watched struct {
	vfs.FS
	cut func()
}

func (w watched) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := w.FS.Create(name, category)
	w.cut()
	return f, err
}

func (w watched) Rename(from, to string) error {
	w.cut()
	defer w.cut()
	return w.FS.Rename(from, to)
}

func (w watched) OpenDir(name string) (vfs.File, error) {
	w.cut()
	return w.FS.OpenDir(name)
}
