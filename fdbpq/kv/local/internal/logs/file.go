package logs

import (
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// file is a log.
type file struct {
	syncedFile
	size   int64 // of the file, with zeros and remains of an old log
	lazy   bool  // sync only when it is closed
	closed func()
	failed func(error) // called before an error is returned
}

// logAhead is the number of zeros that are added to a log at a time. A larger number makes the next sync slower, a
// smaller one makes such syncs more frequent.
const logAhead = 256 << 10

var zeros [logAhead]byte

// Write implements io.Writer. It adds zeros behind the written bytes; it succeeds
// when there is no space for the zeros.
func (f *file) Write(p []byte) (int, error) {
	if f.lazy {
		clearSyncedOffsets(p)
	}
	n, err := f.syncedFile.Write(p)
	end := f.end.Load()
	if err != nil || end <= f.size {
		return n, f.report("writing", err)
	}
	f.size = end + logAhead
	if _, err := f.WriteAt(zeros[:], end); err != nil {
		f.size = math.MaxInt64 // add none from now on
	}
	return n, nil
}

// Sync implements vfs.File.
func (f *file) Sync() error {
	if f.lazy {
		return nil
	}
	return f.report("syncing", f.syncedFile.Sync())
}

// SyncData implements vfs.File.
func (f *file) SyncData() error {
	if f.lazy {
		return nil
	}
	return f.report("syncing", f.syncedFile.SyncData())
}

// Close implements io.Closer.
func (f *file) Close() error {
	f.closed()
	var err error
	if f.lazy {
		err = f.File.SyncData()
	}
	return f.report("closing", errors.Join(err, f.File.Close()))
}

func (f *file) report(what string, err error) error {
	if err != nil {
		f.failed(fmt.Errorf("%s the store's log failed: %w", what, err))
	}
	return err
}

// reader reads a log up to where it was written when it was opened. Only Read works.
type reader struct {
	vfs.File
	limited io.LimitedReader
}

// Read implements io.Reader.
func (r *reader) Read(p []byte) (int, error) { return r.limited.Read(p) }
