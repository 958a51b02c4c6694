package local

import (
	"errors"
	"io"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// diskFS lets a test decide what becomes of writing and syncing the log, and of
// making logs and tables.
type diskFS struct {
	vfs.FS
	onWrite  func() error
	onSync   func() error
	onCreate func(name string) error
	onClose  func() error
}

func (d *diskFS) create(name string) error {
	if d.onCreate == nil {
		return nil
	}
	return d.onCreate(name)
}

func (d *diskFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.create(name); err != nil {
		return nil, err
	}
	f, err := d.FS.Create(name, category)
	return d.wrap(name, f), err
}

func (d *diskFS) ReuseForWrite(oldname, newname string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if err := d.create(newname); err != nil {
		return nil, err
	}
	f, err := d.FS.ReuseForWrite(oldname, newname, category)
	return d.wrap(newname, f), err
}

func (d *diskFS) wrap(name string, f vfs.File) vfs.File {
	if f == nil || !strings.HasSuffix(name, ".log") {
		return f
	}
	return &diskFile{f, d}
}

type diskFile struct {
	vfs.File
	fs *diskFS
}

func (f *diskFile) Write(p []byte) (int, error) {
	if f.fs.onWrite != nil {
		if err := f.fs.onWrite(); err != nil {
			return 0, err
		}
	}
	return f.File.Write(p)
}

func (f *diskFile) Sync() error {
	if f.fs.onSync != nil {
		if err := f.fs.onSync(); err != nil {
			return err
		}
	}
	return f.File.Sync()
}

func (f *diskFile) SyncData() error {
	if f.fs.onSync != nil {
		if err := f.fs.onSync(); err != nil {
			return err
		}
	}
	return f.File.SyncData()
}

func (f *diskFile) Close() error {
	if f.fs.onClose != nil {
		if err := f.fs.onClose(); err != nil {
			return errors.Join(err, f.File.Close())
		}
	}
	return f.File.Close()
}

// forgetfulFS claims to sync the log, and keeps no lock on the directory.
type forgetfulFS struct{ diskFS }

func (d *forgetfulFS) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

func (d *forgetfulFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if f != nil && strings.HasSuffix(name, ".log") {
		f = forgetfulFile{f}
	}
	return f, err
}

type forgetfulFile struct{ vfs.File }

func (forgetfulFile) Sync() error { return nil }

func (forgetfulFile) SyncData() error { return nil }
