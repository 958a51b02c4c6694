package main

import (
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
)

// outputFile is a file that a command writes. It gets its name when it is complete, so a
// command that fails leaves no file, and does not change an earlier one. A pipe or a device
// gets each write at once.
type outputFile struct {
	io.Writer
	file      *os.File
	name      string // that it gets in the end; "" when it has its name already
	overwrite bool
}

// createOutput begins to write a file.
func createOutput(name string, overwrite bool) (*outputFile, error) {
	if target, err := filepath.EvalSymlinks(name); err == nil {
		name = target
	}
	mode := os.FileMode(0o666)
	switch info, err := os.Stat(name); {
	case errors.Is(err, os.ErrNotExist):
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		return &outputFile{Writer: file, file: file}, err
	case !overwrite:
		return nil, errExists(name)
	default:
		mode = info.Mode().Perm()
	}
	unfinished := name + "." + strconv.FormatUint(rand.Uint64(), 36) + ".part"
	file, err := os.OpenFile(unfinished, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return nil, err
	}
	return &outputFile{Writer: file, file: file, name: name, overwrite: overwrite}, nil
}

func errExists(name string) error {
	return session.Usagef("%s exists: expected --force to overwrite it", name)
}

// end syncs the file and gives it its name, unless writing failed. It returns why the file
// does not exist.
func (o *outputFile) end(failure error) error {
	if o.name == "" {
		return errors.Join(failure, o.file.Close())
	}
	if failure == nil {
		failure = o.file.Sync()
	}
	failure = errors.Join(failure, o.file.Close())
	if failure == nil {
		failure = o.rename()
	}
	if failure != nil {
		return errors.Join(failure, os.Remove(o.file.Name()))
	}
	return syncDirectory(filepath.Dir(o.name))
}

func (o *outputFile) rename() error {
	if _, err := os.Lstat(o.name); !o.overwrite && err == nil {
		return errExists(o.name) // another process has made it meanwhile
	}
	return os.Rename(o.file.Name(), o.name)
}

// syncDirectory puts the names of a directory on the disk.
func syncDirectory(name string) error {
	dir, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
