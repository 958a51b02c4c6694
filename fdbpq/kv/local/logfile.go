package local

import (
	"errors"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// logFile is a log.
type logFile struct {
	syncedFile
	size   int64 // of the file, zeros and remains included
	lazy   bool  // it is synced when it is closed
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
		clearSyncedOffsets(p)
	}
	n, err := f.syncedFile.Write(p)
	end := f.end.Load()
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
	return f.syncedFile.Sync()
}

// SyncData implements vfs.File.
func (f *logFile) SyncData() error {
	if f.lazy {
		return nil
	}
	return f.syncedFile.SyncData()
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
