package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// lockDirectory locks dir itself, and makes it if there is none. Pebble locks only a
// file in it: if that file is deleted, a second process can create and lock another
// one. A directory cannot be deleted while it has files.
func lockDirectory(disk vfs.FS, dir string, log *slog.Logger) (io.Closer, error) {
	if vfs.Root(disk) != vfs.Default {
		return io.NopCloser(nil), nil // no other process can access it
	}
	if err := makeDirectory(disk, dir); err != nil {
		return nil, err
	}
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	switch {
	case err == nil:
		return f, nil
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(err, f.Close())
	}
	// Some network file systems cannot lock directories.
	log.Warn("kv/local: the directory of the store cannot be locked, only a file in it: do not delete LOCK", "directory", dir, "err", err)
	if err := f.Close(); err != nil {
		return nil, fmt.Errorf("closing %s: %w", dir, err)
	}
	return io.NopCloser(nil), nil
}

// makeDirectory makes dir and missing directories above it, durably: a name is on the
// disk once the directory that has it is synced.
func makeDirectory(disk vfs.FS, dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	var parents []string
	for at := dir; ; at = disk.PathDir(at) {
		if _, err := disk.Stat(at); err == nil {
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		parents = append(parents, disk.PathDir(at))
	}
	if err := disk.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	for _, parent := range parents {
		if err := syncDirectory(disk, parent); err != nil {
			return err
		}
	}
	return nil
}

// syncDirectory makes the names in a directory durable.
func syncDirectory(disk vfs.FS, dir string) error {
	f, err := disk.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
