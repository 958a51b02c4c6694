package logs

import (
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// syncedFile is a file that is written sequentially and knows how much of it is synced.
type syncedFile struct {
	vfs.File
	number      uint64
	end, synced atomic.Int64
}

// Write implements io.Writer.
func (f *syncedFile) Write(p []byte) (int, error) {
	n, err := f.File.Write(p)
	f.end.Add(int64(n))
	return n, err
}

// Sync implements vfs.File.
func (f *syncedFile) Sync() error { return f.sync(f.File.Sync) }

// SyncData implements vfs.File.
func (f *syncedFile) SyncData() error { return f.sync(f.File.SyncData) }

func (f *syncedFile) sync(sync func() error) error {
	end := f.end.Load()
	if err := sync(); err != nil {
		return err
	}
	f.synced.Store(end)
	return nil
}
