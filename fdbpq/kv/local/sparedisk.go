package local

import (
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// compactions is the category of files that Pebble writes in compactions.
const compactions vfs.DiskWriteCategory = "pebble-compaction"

// spareDisk is a file system on which the files of the store get the room of the spare file when there is no other. Compactions do
// not: they can wait, and would take all of it. Files outside the store's directory, such as backups, do not, either.
type spareDisk struct {
	vfs.FS
	spare *spare
}

// Unwrap implements vfs.FS.
func (d spareDisk) Unwrap() vfs.FS { return d.FS }

func (d spareDisk) outside(name string) bool {
	return d.PathDir(name) != d.PathDir(d.PathJoin(d.spare.dir, "a file"))
}

// Create implements vfs.FS.
func (d spareDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(name, category, func() (vfs.File, error) { return d.FS.Create(name, category) })
}

// OpenReadWrite implements vfs.FS.
func (d spareDisk) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return d.open(name, category, func() (vfs.File, error) { return d.FS.OpenReadWrite(name, category, opts...) })
}

// ReuseForWrite implements vfs.FS.
func (d spareDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return d.open(to, category, func() (vfs.File, error) { return d.FS.ReuseForWrite(from, to, category) })
}

func (d spareDisk) open(name string, category vfs.DiskWriteCategory, open func() (vfs.File, error)) (f vfs.File, err error) {
	switch {
	case d.outside(name):
		return open()
	case category == compactions:
		if f, err = open(); err != nil {
			return nil, err
		}
		return &compactedFile{File: f, spare: d.spare}, nil
	}
	err = d.spare.try(func() (err error) {
		f, err = open()
		return err
	})
	if err != nil {
		return nil, err
	}
	return &sparedFile{File: f, spare: d.spare, log: strings.HasSuffix(name, ".log")}, nil
}

// Rename implements vfs.FS.
func (d spareDisk) Rename(from, to string) error {
	if d.outside(to) {
		return d.FS.Rename(from, to)
	}
	return d.spare.try(func() error { return d.FS.Rename(from, to) })
}

// sparedFile is a file whose writes get the room of the spare file.
type sparedFile struct {
	vfs.File
	spare *spare
	log   bool
}

// Write implements io.Writer. It is what try does, without an allocation at each write of the log.
func (f *sparedFile) Write(p []byte) (int, error) {
	at := f.spare.given.Load()
	n, err := f.File.Write(p)
	if err == nil || !isFull(err) || !f.spare.giveUp(at) {
		return n, err
	}
	more, err := f.File.Write(p[n:])
	return n + more, err
}

// WriteAt implements io.WriterAt. That of a log adds zeros, which it can do without.
func (f *sparedFile) WriteAt(p []byte, offset int64) (n int, err error) {
	if f.log {
		return f.File.WriteAt(p, offset)
	}
	err = f.spare.try(func() error {
		n, err = f.File.WriteAt(p, offset)
		return err
	})
	return n, err
}

// Preallocate implements vfs.File. A log without the spare file takes no more room than it needs.
func (f *sparedFile) Preallocate(offset, length int64) error {
	if f.log && f.spare.want > 0 && f.spare.has.Load() == 0 {
		return nil
	}
	return f.File.Preallocate(offset, length)
}

// looksEvery is how many bytes a compaction writes between looks at the disk. What writes less need not look.
const looksEvery = 1 << 20

// compactedFile is a file of a compaction, which ends while little is free.
type compactedFile struct {
	vfs.File
	spare *spare
	since int // bytes since the last look
}

// Write implements io.Writer.
func (f *compactedFile) Write(p []byte) (int, error) {
	if f.since += len(p); f.since >= looksEvery {
		if err := f.spare.spares(); err != nil {
			return 0, err
		}
		f.since = 0
	}
	return f.File.Write(p)
}
