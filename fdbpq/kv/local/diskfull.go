package local

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// tableHealth records whether Pebble can write its tables. While it cannot, because the disk
// is full, the store refuses commits. Otherwise Pebble would accept more of them until
// memory and old logs are full, and then block all commits, or fail to make a new log.
type tableHealth struct {
	background *backgroundLog
	closing    chan struct{} // closed when Create need not pause any more

	flush   atomic.Pointer[error] // error of the last flush, or nil
	compact atomic.Pointer[error] // error of the last compaction, or nil
}

// retryPause delays retries of Pebble, which retries at once.
const retryPause = time.Second

// err returns why commits are refused, or nil.
func (s *tableHealth) err() error {
	if err := s.flush.Load(); err != nil {
		return fmt.Errorf("the store's tables cannot be written: %w", *err)
	}
	return nil
}

// flushed records the result of a flush. Pebble reports an error when there was nothing
// to write because all of it had been cleared.
func (s *tableHealth) flushed(err error) {
	switch {
	case err != nil && !strings.HasSuffix(err.Error(), "empty table"):
		s.flush.Store(&err)
		s.background.error("the store's tables cannot be written: commits are refused until they can be", "err", err)
	case s.flush.Swap(nil) != nil:
		s.background.recovered("the store's tables are written again")
	}
}

// compacted records the result of a compaction.
func (s *tableHealth) compacted(err error) {
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction):
	case err != nil:
		s.compact.Store(&err)
		s.background.error("the store's tables cannot be compacted", "err", err)
	case s.compact.Swap(nil) != nil:
		s.background.recovered("the store's tables are compacted again")
	}
}

// knows reports whether err was recorded.
func (s *tableHealth) knows(err error) bool {
	for _, noted := range []*error{s.flush.Load(), s.compact.Load()} {
		if noted != nil && errors.Is(err, *noted) {
			return true
		}
	}
	return false
}

// tableDisk is a file system that pauses before it creates a table, if the last one
// could not be written.
type tableDisk struct {
	vfs.FS
	tables *tableHealth
}

// Unwrap implements vfs.FS.
func (d tableDisk) Unwrap() vfs.FS { return d.FS }

// Create implements vfs.FS.
func (d tableDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasSuffix(name, ".sst") && (d.tables.flush.Load() != nil || d.tables.compact.Load() != nil) {
		pause := time.NewTimer(retryPause)
		defer pause.Stop()
		select {
		case <-pause.C:
		case <-d.tables.closing:
		}
	}
	return d.FS.Create(name, category)
}
