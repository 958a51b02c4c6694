// Package durable writes small files and names of files so that they outlive a power loss.
//
// It guarantees:
//   - Replace leaves the old content or the new one, whenever the power fails. When it returns nil, the new one is
//     durable, and so is its name.
//   - Write makes the content durable, and not the name: that takes SyncDirectory.
//   - A file that does not exist has no content: Read returns nil, and no error.
package durable

import (
	"errors"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Partial ends the name of a file or a folder that is not yet complete.
const Partial = ".partial"

// Read returns the content of a small file, nil if there is none.
func Read(disk vfs.FS, path string) ([]byte, error) {
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

// Write makes a small file with this content. The content is durable when it returns
// nil, the file's name is not.
func Write(disk vfs.FS, path string, content []byte) error {
	f, err := disk.Create(path, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if _, err := f.Write(content); err != nil {
		return errors.Join(err, f.Close())
	}
	return errors.Join(f.Sync(), f.Close())
}

// Replace replaces a small file, or makes it.
func Replace(disk vfs.FS, path string, content []byte) error {
	if err := Write(disk, path+Partial, content); err != nil {
		return err
	}
	return errors.Join(disk.Rename(path+Partial, path), SyncDirectory(disk, disk.PathDir(path)))
}

// SyncDirectory makes the names in a directory durable.
func SyncDirectory(disk vfs.FS, dir string) error {
	f, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
