package local

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// SpareName is the name of the spare file in the directory of a store. Copies of the store do not have it.
const SpareName = "SPARE"

// spare is a file that holds room on the disk for the store. A write that finds no room removes the file and is repeated. So a full
// disk neither ends the process nor keeps a store from opening. Who writes after that is the caller's to bound: it sees by
// [DB.Spare] that the file is gone, and has it made again by [DB.KeepSpare].
//
// The file holds nothing, so nothing of it need be on the disk after a power loss: a store that finds none goes on without.
type spare struct {
	disk       vfs.FS
	dir        string
	want       int64 // bytes; 0: no file
	background *backgroundLog

	mu    sync.Mutex // held while the file is made or removed
	has   atomic.Int64
	given atomic.Uint64 // how often room was given back to the disk
}

func (s *spare) path() string { return s.disk.PathJoin(s.dir, SpareName) }

// find looks for the file of an earlier process. One that takes no room, such as a copy with holes, holds none.
func (s *spare) find() {
	info, err := s.disk.Stat(s.path())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return
	case err == nil && s.want > 0 && info.Size() > 0 && allocated(info):
		s.has.Store(info.Size())
		return
	case err == nil:
		err = s.disk.Remove(s.path())
	}
	if err != nil {
		s.background.warn("the spare file of an earlier process cannot be used", "err", err)
	}
}

// allocated reports whether all of a file has room on the disk, as far as that is known.
func allocated(info vfs.FileInfo) bool {
	stat, known := info.Sys().(*syscall.Stat_t)
	return !known || stat.Blocks*512 >= info.Size()
}

// keep makes the file, or makes it anew in its size.
func (s *spare) keep() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.has.Load() == s.want {
		return nil
	}
	err := s.remove()
	if err == nil {
		if err = s.write(); err == nil {
			s.has.Store(s.want)
			return nil
		}
		err = errors.Join(err, s.remove()) // and what has found no room meanwhile is repeated
	}
	return fmt.Errorf("kv/local: making the spare file: %w", err)
}

// write makes the file. Where its room cannot be reserved, it is written, with content that no file system makes smaller.
func (s *spare) write() error {
	f, err := s.disk.Create(s.path(), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err = reserve(f, s.want); errors.Is(err, errors.ErrUnsupported) {
		err = fill(f, s.want)
	}
	return errors.Join(err, f.Close())
}

// fill writes random bytes. The sync has a disk say now that it has no room for them.
func fill(f vfs.File, size int64) error {
	random := rand.NewChaCha8([32]byte{})
	part := make([]byte, 1<<20)
	for size > 0 {
		part = part[:min(int64(len(part)), size)]
		_, _ = random.Read(part)
		if _, err := f.Write(part); err != nil {
			return err
		}
		size -= int64(len(part))
	}
	return f.SyncData()
}

// remove removes the file, if there is one. The caller holds the lock.
func (s *spare) remove() error {
	if err := s.disk.Remove(s.path()); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	s.has.Store(0)
	s.given.Add(1)
	return nil
}

// giveUp reports whether a write that found no room may find some now. at is how often room had been given back before it.
func (s *spare) giveUp(at uint64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	bytes := s.has.Load()
	if s.given.Load() != at || bytes == 0 {
		return s.given.Load() != at
	}
	if err := s.remove(); err != nil {
		s.background.error("the disk of the store is full, and the spare file cannot be removed", "err", err)
		return false
	}
	s.background.error("the disk of the store is full: the spare file is given up, which gives room to the store", "bytes", bytes)
	return true
}

// isFull reports whether a write failed because there is no room, or the user may have no more.
func isFull(err error) bool { return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) }

// try repeats a write that finds no room, once the file is given up.
func (s *spare) try(write func() error) error {
	at := s.given.Load()
	err := write()
	if isFull(err) && s.giveUp(at) {
		err = write()
	}
	return err
}

// leftByCompactions is the part of the file's size that compactions leave free. They free more than they take, but at their end:
// until then they could take what a log or a flush needs.
const leftByCompactions = 2

// spares says why a compaction may not go on, or nil.
func (s *spare) spares() error {
	least := uint64(s.want / leftByCompactions)
	if least == 0 {
		return nil
	}
	usage, err := s.disk.GetDiskUsage(s.dir)
	if err != nil || usage.AvailBytes >= least {
		return nil // the disk itself says later that it has no room
	}
	return fmt.Errorf("compactions leave the last %d MiB of the disk to logs and flushes: %w", least>>20, syscall.ENOSPC)
}

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
