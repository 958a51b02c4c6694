package local

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/logs"
)

// sent has the checkpoint of a replica fetched for another one, a few bytes at a time.
func sent(t *testing.T, c *Checkpoint, in *Incoming) {
	t.Helper()
	for _, file := range c.Files() {
		offset := int64(0)
		err := in.Put(file.Name, func() ([]byte, error) {
			part := make([]byte, min(1000, file.Size-offset))
			if len(part) == 0 {
				return nil, nil
			}
			err := c.ReadAt(file.Name, part, offset)
			offset += int64(len(part))
			return part, err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
}

// filled makes a replica with one row, at a position.
func filled(t *testing.T, fs vfs.FS, at int) *Replica {
	t.Helper()
	r := mustOpenReplica(t, fs)
	if err := r.Apply(appendChange(nil, changeSet, []byte("k"), position(at)), position(at)); err != nil {
		t.Fatal(err)
	}
	return r
}

func filledContent(at int) string {
	return fmt.Sprintf("%q %x <nil>", []kv.Pair{{Key: []byte("k"), Value: position(at)}}, position(at))
}

// A checkpoint has what the replica had, and so have later ones. Of its files, and of
// nothing else, parts can be read, and no less than was asked for.
func TestCheckpoint(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	r := filled(t, disk, 1)
	if _, err := r.Checkpoint(); err != nil {
		t.Fatal(err)
	}
	if err := r.Apply(appendChange(nil, changeSet, []byte("k"), position(2)), position(2)); err != nil {
		t.Fatal(err)
	}
	c, err := r.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	file := c.Files()[0]
	sizes := map[string]int64{file.Name: file.Size + 1, "no such file": 1, "": 1}
	others, err := disk.List("replica")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range others {
		sizes["../replica/"+name] = 1
	}
	for name, size := range sizes {
		if err := c.ReadAt(name, make([]byte, size), 0); err == nil {
			t.Errorf("%d bytes of %q could be read", size, name)
		}
	}
	elsewhere := vfs.NewMem()
	in, err := Receive("/replica", Options{FS: elsewhere})
	if err != nil {
		t.Fatal(err)
	}
	if err := in.Restart([]byte("label")); err != nil {
		t.Fatal(err)
	}
	sent(t, c, in)
	if err := errors.Join(in.Complete(), Adopt("/replica", Options{FS: elsewhere})); err != nil {
		t.Fatal(err)
	}
	adopted(t, elsewhere, "/replica", 2)
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}

	left := func() bool { _, err := disk.Stat("replica.checkpoint"); return err == nil }
	if !left() {
		t.Fatal("the checkpoint is gone")
	}
	if err := mustOpenReplica(t, disk).Close(); err != nil || left() {
		t.Errorf("an open leaves the checkpoint of an earlier process, %v", err)
	}
}

// A checkpoint that is on its way survives a power loss, with its label and each file
// that came as a whole. Restart drops it. Only a complete one is adopted.
func TestCheckpointOnItsWay(t *testing.T) {
	t.Parallel()
	r := filled(t, vfs.NewMem(), 2)
	defer r.Close()
	c, err := r.Checkpoint()
	if err != nil {
		t.Fatal(err)
	}
	disk := vfs.NewCrashableMem()
	first, err := OpenReplica("/members/a", Options{FS: disk, Now: stopped})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(first.Apply(appendChange(nil, changeSet, []byte("k"), position(1)), position(1)), first.Sync(), first.Close()); err != nil {
		t.Fatal(err)
	}
	safe := func() *Incoming {
		t.Helper()
		disk = disk.CrashClone(vfs.CrashCloneCfg{}) // nothing that was not synced is left
		in, err := Receive("/members/a", Options{FS: disk})
		if err != nil {
			t.Fatal(err)
		}
		return in
	}
	in := safe()
	if label, err := in.Label(); err != nil || label != nil {
		t.Errorf("nothing was received, and the label is %q, %v", label, err)
	}
	if err := in.Restart([]byte("first")); err != nil {
		t.Fatal(err)
	}
	reason := errors.New("the member that sends it is gone")
	name, parts := c.Files()[0].Name, 0
	if err := in.Put(name, func() ([]byte, error) {
		if parts++; parts > 1 {
			return nil, reason
		}
		return []byte("a part"), nil
	}); !errors.Is(err, reason) {
		t.Errorf("Put returned %v, expected %v", err, reason)
	}
	if has, err := in.Has(name); err != nil || has {
		t.Errorf("a file of which a part came counts as here, %v", err)
	}
	for _, bad := range []string{"../a/CURRENT", "sub/file"} {
		if err := in.Put(bad, func() ([]byte, error) { return nil, nil }); err == nil {
			t.Errorf("a file named %q was taken", bad)
		}
	}
	sent(t, c, in)
	in = safe()
	if label, err := in.Label(); err != nil || string(label) != "first" {
		t.Errorf("the label is %q, %v", label, err)
	}
	if err := Adopt("/members/a", Options{FS: disk}); err != nil {
		t.Fatal(err)
	}
	adopted(t, disk, "/members/a", 1) // it was not complete
	if err := in.Restart([]byte("second")); err != nil {
		t.Fatal(err)
	}
	if has, err := in.Has(name); err != nil || has {
		t.Errorf("a file is here after a restart, %v", err)
	}
	sent(t, c, in)
	if err := in.Complete(); err != nil {
		t.Fatal(err)
	}
	in = safe()
	if label, err := in.Label(); err != nil || string(label) != "second" {
		t.Errorf("the label is %q, %v", label, err)
	}
	if err := Adopt("/members/a", Options{FS: disk}); err != nil {
		t.Fatal(err)
	}
	adopted(t, disk, "/members/a", 2)
	if err := Adopt("/members/a", Options{FS: disk}); err != nil {
		t.Errorf("there is nothing to adopt: %v", err)
	}
}

// adopted fails the test unless the replica in dir is at a position.
func adopted(t *testing.T, fs vfs.FS, dir string, at int) {
	t.Helper()
	r, err := OpenReplica(dir, Options{FS: fs, Now: stopped})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := contentOf(r), filledContent(at); got != want {
		t.Errorf("the replica has %s, expected %s", got, want)
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// stepsFS notes what happens to names.
type stepsFS struct {
	vfs.FS
	steps []string
}

func (d *stepsFS) note(what, name string) { d.steps = append(d.steps, what+" "+filepath.Base(name)) }

func (d *stepsFS) RemoveAll(name string) error { d.note("remove", name); return d.FS.RemoveAll(name) }
func (d *stepsFS) Remove(name string) error    { d.note("remove", name); return d.FS.Remove(name) }
func (d *stepsFS) Rename(from, to string) error {
	d.note("rename", from)
	return d.FS.Rename(from, to)
}

func (d *stepsFS) OpenDir(name string) (vfs.File, error) {
	d.note("sync", name)
	return d.FS.OpenDir(name)
}

// A checkpoint takes the place of the replica in steps of which a power loss leaves one
// of the two whole: the one that is replaced is gone for good before its name is given to
// the other.
func TestStepsOfAdopt(t *testing.T) {
	t.Parallel()
	disk := &stepsFS{FS: vfs.NewMem()}
	if err := disk.MkdirAll("/members/a", 0o755); err != nil {
		t.Fatal(err)
	}
	in, err := Receive("/members/a", Options{FS: disk})
	if err == nil {
		err = errors.Join(in.Restart([]byte("label")), in.Complete())
	}
	disk.steps = nil
	if err = errors.Join(err, Adopt("/members/a", Options{FS: disk})); err != nil {
		t.Fatal(err)
	}
	want := []string{"remove a", "sync members", "rename a.incoming", "sync members", "remove COMPLETE", "remove LABEL", "sync a"}
	if !slices.Equal(disk.steps, want) {
		t.Errorf("the steps are %q, expected %q", disk.steps, want)
	}
}

// A replica has a log: it is neither lazy nor read-only.
func TestReplicaOptions(t *testing.T) {
	t.Parallel()
	for _, o := range []Options{{NoSync: true}, {Salvage: true}} {
		o.FS = vfs.NewMem()
		if r, err := OpenReplica("replica", o); err == nil {
			t.Errorf("%+v were accepted", o)
			_ = r.Close()
		}
	}
}

// The changes of a commit and its position are one record of the log: a power loss leaves
// both or none. Sync notes how far the log is synced.
func TestCommitIsOneRecord(t *testing.T) {
	t.Parallel()
	disk := vfs.NewMem()
	r := filled(t, disk, 1)
	defer r.Close()
	records := func() (n int) {
		t.Helper()
		scanLog(t, disk, "replica", r.db.disk.Synced().Log, func(c logs.Chunk) {
			if c.First {
				n++
			}
		})
		return n
	}
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	before, commits := records(), 5
	for n := range commits {
		if err := r.Apply(appendChange(nil, changeSet, []byte("k"), position(n)), position(n)); err != nil {
			t.Fatal(err)
		}
	}
	synced := r.db.disk.Synced().LogSynced
	if err := r.Sync(); err != nil {
		t.Fatal(err)
	}
	if n := records() - before; n != commits+1 { // Sync writes a mark
		t.Errorf("%d records for %d commits and a mark", n, commits)
	}
	if m := noted(t, disk, "replica"); m.LogSynced <= synced {
		t.Errorf("the note says %+v: expected more than %d bytes of the log", m, synced)
	}
}
