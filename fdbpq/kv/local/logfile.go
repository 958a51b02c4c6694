package local

import (
	"errors"
	"io"
	"math"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logDisk is the disk of a store, and does some things for the store's logs.
//
// It writes them over zeros where they are not written over an old log. To sync
// what lies within a file takes about two thirds of what it takes to sync what
// made the file longer: there is no new size, and there are no new blocks, that
// the file system would have to write down as well.
//
// It lets who reads a log that is being written read no further than it has been
// written, zeros and remains of an old log not included. That is what a backup
// does. It would otherwise read such remains first, and then what was written
// over them and behind them meanwhile: to the store, a hole in what it once
// synced.
//
// If it is lazy, a sync of a log that is being written does nothing, so it comes
// to handing over to the operating system what the store holds back otherwise.
// A log is synced when it is closed, before the next one begins: what a crash of
// the machine takes back is the end of the last log.
type logDisk struct {
	vfs.FS
	dir  string
	lazy bool
	open *sync.Map // of *logFile, by name: the logs that are being written
}

func newLogDisk(disk vfs.FS, dir string, lazy bool) vfs.FS {
	return logDisk{disk, disk.PathDir(disk.PathJoin(dir, "a file")), lazy, new(sync.Map)}
}

// Unwrap implements vfs.FS.
func (d logDisk) Unwrap() vfs.FS { return d.FS }

// isLog tells the store's logs from its other files, and from copies of logs.
func (d logDisk) isLog(name string) bool {
	return strings.HasSuffix(name, ".log") && d.PathDir(name) == d.dir
}

// Create implements vfs.FS.
func (d logDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	if err != nil || !d.isLog(name) {
		return f, err
	}
	return d.newLog(f, name, 0), nil
}

// ReuseForWrite implements vfs.FS.
func (d logDisk) ReuseForWrite(from, to string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.ReuseForWrite(from, to, category)
	if err != nil || !d.isLog(to) {
		return f, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return d.newLog(f, to, info.Size()), nil
}

func (d logDisk) newLog(f vfs.File, name string, size int64) *logFile {
	log := &logFile{File: f, size: size, lazy: d.lazy}
	log.closed = func() { d.open.CompareAndDelete(name, log) }
	d.open.Store(name, log)
	return log
}

// Open implements vfs.FS.
func (d logDisk) Open(name string, opts ...vfs.OpenOption) (vfs.File, error) {
	log, writing := d.open.Load(name)
	f, err := d.FS.Open(name, opts...)
	if err != nil || !writing {
		return f, err
	}
	return &logReader{f, io.LimitedReader{R: f, N: log.(*logFile).end.Load()}}, nil
}

// logFile is a log that is written from its beginning to its end.
type logFile struct {
	vfs.File
	end    atomic.Int64 // of what was written
	size   int64        // of the file, zeros and remains included
	lazy   bool         // it is synced when it is closed
	closed func()
}

// logAhead is how much longer a file is made at a time. The sync that follows
// takes longer by as many bytes; with fewer it would happen more often.
const logAhead = 256 << 10

var zeros [logAhead]byte

// Write implements io.Writer. Zeros follow what was written: when there is no
// space for them, that was still written.
func (f *logFile) Write(p []byte) (int, error) {
	if f.lazy {
		disclaimSync(p)
	}
	n, err := f.File.Write(p)
	end := f.end.Add(int64(n))
	if err != nil || end <= f.size {
		return n, err
	}
	f.size = end + logAhead
	if _, err := f.WriteAt(zeros[:], end); err != nil {
		f.size = math.MaxInt64 // it goes without
	}
	return n, nil
}

// Sync implements vfs.File.
func (f *logFile) Sync() error {
	if f.lazy {
		return nil
	}
	return f.File.Sync()
}

// SyncData implements vfs.File.
func (f *logFile) SyncData() error {
	if f.lazy {
		return nil
	}
	return f.File.SyncData()
}

// Close implements io.Closer.
func (f *logFile) Close() error {
	f.closed()
	var err error
	if f.lazy {
		err = f.File.SyncData()
	}
	return errors.Join(err, f.File.Close())
}

// logReader reads a log, by Read alone, up to where it had been written.
type logReader struct {
	vfs.File
	limited io.LimitedReader
}

// Read implements io.Reader.
func (r *logReader) Read(p []byte) (int, error) { return r.limited.Read(p) }
