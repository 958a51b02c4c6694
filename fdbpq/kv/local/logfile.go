package local

import (
	"errors"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logDisk is a disk that knows how far the store's logs have been written. The
// store uses the files of old logs again, so what lies behind the end of a log
// is not nothing.
//
// A log is written over zeros where it is not written over an old one. To sync
// what lies within a file takes about two thirds of what it takes to sync what
// made the file longer: there is no new size, and there are no new blocks, that
// the file system would have to write down as well.
//
// A log that is read while it is written ends where it ended when it was opened.
// That is what a backup does, and without an end it may read the remains of an
// old log first and then what was written over them and behind them meanwhile:
// to the store, a hole in what it once synced.
type logDisk struct {
	vfs.FS
	written *sync.Map // of *logFile, by name: the logs that are being written
}

func newLogDisk(disk vfs.FS) vfs.FS {
	return logDisk{disk, new(sync.Map)}
}

func isLog(name string) bool { return strings.HasSuffix(name, ".log") }

// Create implements vfs.FS.
func (d logDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil || !isLog(name) {
		return f, err
	}
	return d.write(f, name, 0), nil
}

// ReuseForWrite implements vfs.FS.
func (d logDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, category)
	if err != nil || !isLog(to) {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.write(f, to, info.Size()), nil
}

func (d logDisk) write(f vfs.File, name string, size int64) *logFile {
	log := &logFile{File: f, size: size}
	log.closed = func() { d.written.CompareAndDelete(name, log) }
	d.written.Store(name, log)
	return log
}

// Open implements vfs.FS.
func (d logDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	log, written := d.written.Load(name)
	f, err := d.FS.Open(name, opts...)
	if err != nil || !written {
		return f, err
	}
	return &logReader{f, io.LimitedReader{R: f, N: log.(*logFile).end.Load()}}, nil
}

// logFile is a log that is written from its beginning to its end.
type logFile struct {
	vfs.File
	end    atomic.Int64
	size   int64
	closed func()
}

// logAhead is how much longer a file is made at a time. The sync that follows
// takes longer by as many bytes; with fewer it would happen more often.
const logAhead = 256 << 10

var zeros [logAhead]byte

// Write implements io.Writer.
func (f *logFile) Write(p []byte) (int, error) {
	if end := f.end.Load() + int64(len(p)); end > f.size {
		// Should that fail, for want of space perhaps, then what matters is
		// whether the write does.
		n, _ := f.WriteAt(zeros[:], end)
		f.size = end + int64(n)
	}
	n, err := f.File.Write(p)
	f.end.Add(int64(n))
	return n, err
}

// Close implements io.Closer.
func (f *logFile) Close() error {
	f.closed()
	return f.File.Close()
}

// logReader reads a log up to where it had been written.
type logReader struct {
	vfs.File
	limited io.LimitedReader
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) { return r.limited.Read(p) }
