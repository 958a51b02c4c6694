package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/pqbridge/pqbridge/fdbpq/kv/local/internal/durable"
)

// Checkpoint is a copy of a replica that another process can fetch file by file. Its
// files never change.
type Checkpoint struct {
	fs    vfs.FS
	dir   string
	files []CheckpointFile
}

// CheckpointFile is a file of a checkpoint.
type CheckpointFile struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// checkpointSuffix ends the name of a replica's checkpoint. Opening the replica removes
// it.
const checkpointSuffix = ".checkpoint"

func removeCheckpoint(disk vfs.FS, dir string) error {
	for _, old := range []string{dir + checkpointSuffix, dir + checkpointSuffix + durable.Partial} {
		if err := disk.RemoveAll(old); err != nil {
			return fmt.Errorf("kv/local: removing a checkpoint: %w", err)
		}
	}
	return nil
}

// Checkpoint makes a checkpoint beside the replica, in the place of an earlier one. It has
// every commit before the call.
func (r *Replica) Checkpoint() (*Checkpoint, error) {
	disk, dir := r.db.opts.FS, r.dir+checkpointSuffix
	if err := removeCheckpoint(disk, r.dir); err != nil {
		return nil, err
	}
	if err := r.Backup(dir); err != nil {
		return nil, err
	}
	c := &Checkpoint{fs: disk, dir: dir}
	names, err := disk.List(dir)
	if err != nil {
		return nil, fmt.Errorf("kv/local: checkpoint: %w", err)
	}
	for _, name := range names {
		info, err := disk.Stat(disk.PathJoin(dir, name))
		if err != nil {
			return nil, fmt.Errorf("kv/local: checkpoint: %w", err)
		}
		c.files = append(c.files, CheckpointFile{Name: name, Size: info.Size()})
	}
	return c, nil
}

// Files are the checkpoint's files.
func (c *Checkpoint) Files() []CheckpointFile { return c.files }

// ReadAt fills p with a part of a file.
func (c *Checkpoint) ReadAt(name string, p []byte, offset int64) error {
	if !c.has(name) {
		return fmt.Errorf("kv/local: the checkpoint has no file %q", name)
	}
	f, err := c.fs.Open(c.fs.PathJoin(c.dir, name))
	if err != nil {
		return err
	}
	n, err := f.ReadAt(p, offset)
	if n == len(p) && errors.Is(err, io.EOF) {
		err = nil
	}
	return errors.Join(err, f.Close())
}

func (c *Checkpoint) has(name string) bool {
	for _, f := range c.files {
		if f.Name == name {
			return true
		}
	}
	return false
}

// Remove deletes the checkpoint.
func (c *Checkpoint) Remove() error { return c.fs.RemoveAll(c.dir) }

// Incoming is a checkpoint of another replica on its way to this machine. What has
// arrived stays there when the process ends.
type Incoming struct {
	fs  vfs.FS
	dir string
}

// The incoming checkpoint is a directory beside the replica. The file labelName has the
// caller's label. The file completeName exists once the checkpoint is complete.
const (
	incomingSuffix = ".incoming"
	labelName      = "LABEL"
	completeName   = "COMPLETE"
)

// Receive continues the checkpoint for the replica in dir, or begins one.
func Receive(dir string, opts Options) (*Incoming, error) {
	in := &Incoming{fs: opts.FS, dir: dir + incomingSuffix}
	if in.fs == nil {
		in.fs = vfs.Default
	}
	if err := makeDirectory(in.fs, in.dir); err != nil {
		return nil, fmt.Errorf("kv/local: receiving a checkpoint: %w", err)
	}
	return in, nil
}

// Label returns the label of Restart, or nil before the first Restart.
func (in *Incoming) Label() ([]byte, error) {
	return durable.Read(in.fs, in.fs.PathJoin(in.dir, labelName))
}

// Restart drops what was received, and begins another checkpoint.
func (in *Incoming) Restart(label []byte) error {
	if err := in.fs.RemoveAll(in.dir); err != nil {
		return err
	}
	if err := makeDirectory(in.fs, in.dir); err != nil {
		return err
	}
	return in.create(labelName, label)
}

func (in *Incoming) create(name string, content []byte) error {
	if err := durable.Write(in.fs, in.fs.PathJoin(in.dir, name), content); err != nil {
		return err
	}
	return durable.SyncDirectory(in.fs, in.dir)
}

// Has reports whether a file is complete.
func (in *Incoming) Has(name string) (bool, error) {
	_, err := in.fs.Stat(in.fs.PathJoin(in.dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// Put writes a file. next returns one part after another and then nil. The file gets its
// name once all of it is on the disk.
func (in *Incoming) Put(name string, next func() ([]byte, error)) error {
	if in.fs.PathBase(name) != name {
		return fmt.Errorf("kv/local: a checkpoint has no file %q", name)
	}
	whole := in.fs.PathJoin(in.dir, name)
	f, err := in.fs.Create(whole+durable.Partial, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	for {
		part, err := next()
		if err == nil && part != nil {
			_, err = f.Write(part)
		}
		if err != nil {
			return errors.Join(err, f.Close())
		}
		if part == nil {
			break
		}
	}
	if err := errors.Join(f.Sync(), f.Close()); err != nil {
		return err
	}
	return errors.Join(in.fs.Rename(whole+durable.Partial, whole), durable.SyncDirectory(in.fs, in.dir))
}

// Complete marks the checkpoint as complete, so that the next Adopt uses it.
func (in *Incoming) Complete() error { return in.create(completeName, nil) }

// SetAside gives the directory of a replica, which must not be open, a name that ends in
// suffix, or in suffix and a number if there is one, and returns it.
func SetAside(dir, suffix string, opts Options) (aside string, err error) {
	disk := opts.FS
	if disk == nil {
		disk = vfs.Default
	}
	aside = dir + suffix
	for n := 2; ; n++ {
		_, err := disk.Stat(aside)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return "", err
		}
		aside = fmt.Sprintf("%s-%d", dir+suffix, n)
	}
	if err := disk.Rename(dir, aside); err != nil {
		return "", fmt.Errorf("kv/local: setting a replica aside: %w", err)
	}
	return aside, durable.SyncDirectory(disk, disk.PathDir(dir))
}

// Adopt replaces the replica in dir, which must not be open, by a complete checkpoint. After
// a crash either of them is whole, and the next call continues.
func Adopt(dir string, opts Options) error {
	disk := opts.FS
	if disk == nil {
		disk = vfs.Default
	}
	incoming := dir + incomingSuffix
	if _, err := disk.Stat(disk.PathJoin(incoming, completeName)); errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	parent := disk.PathDir(dir)
	for _, step := range []func() error{
		func() error { return disk.RemoveAll(dir) },
		func() error { return durable.SyncDirectory(disk, parent) }, // no file of the old replica comes back under the new name
		func() error { return disk.Rename(incoming, dir) },
		func() error { return durable.SyncDirectory(disk, parent) },
		func() error { return disk.Remove(disk.PathJoin(dir, completeName)) },
		func() error { return disk.Remove(disk.PathJoin(dir, labelName)) },
		func() error { return durable.SyncDirectory(disk, dir) },
	} {
		if err := step(); err != nil {
			return fmt.Errorf("kv/local: adopting a checkpoint: %w", err)
		}
	}
	return nil
}
