package local

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A note is a small file beside a replica, which is replaced as a whole. It is not a part
// of the replica: a checkpoint does not have it, and adopting one keeps it.

// WriteNote replaces the note of the replica in dir. When it returns nil, the note is on the
// disk.
func WriteNote(dir, suffix string, content []byte, opts Options) error {
	disk, path := opts.FS, dir+suffix
	if disk == nil {
		disk = vfs.Default
	}
	if err := writeWhole(disk, path+partial, content); err != nil {
		return err
	}
	return errors.Join(disk.Rename(path+partial, path), syncDirectory(disk, disk.PathDir(path)))
}

// ReadNote returns the note of the replica in dir, nil if there is none.
func ReadNote(dir, suffix string, opts Options) ([]byte, error) {
	disk := opts.FS
	if disk == nil {
		disk = vfs.Default
	}
	return readWhole(disk, dir+suffix)
}

// readWhole returns the content of a small file, nil if there is none.
func readWhole(disk vfs.FS, path string) ([]byte, error) {
	f, err := disk.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	content, err := io.ReadAll(f)
	return content, errors.Join(err, f.Close())
}

// writeWhole makes a small file with this content. The content is durable when it returns
// nil, the file's name is not.
func writeWhole(disk vfs.FS, path string, content []byte) error {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}
