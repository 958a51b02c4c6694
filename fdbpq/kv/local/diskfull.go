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

// tables knows whether the store can write its tables, to which it moves what is
// in memory and in its log. When it cannot, because the disk is full, commits
// are refused until it can. The store would take some more of them, into memory
// and old logs, and then hold up everybody, or fail for want of a new log.
type tableHealth struct {
	background *backgroundLog
	closing    chan struct{} // closed when the store is not to wait any more

	flush   atomic.Pointer[error] // why the last move from memory failed
	compact atomic.Pointer[error] // why the last merge of tables failed
}

// retryPause holds up the store, which by itself tries again at once.
const retryPause = time.Second

// trouble says why nothing may be committed, or nil.
func (s *tableHealth) err() error {
	if err := s.flush.Load(); err != nil {
		return fmt.Errorf("the store's tables cannot be written: %w", *err)
	}
	return nil
}

// flushed notes how a move from memory ended. That nothing was left to write,
// because all of it had been cleared, is an error to the store.
func (s *tableHealth) flushed(err error) {
	switch {
	case err != nil && !strings.HasSuffix(err.Error(), "empty table"):
		s.flush.Store(&err)
		s.background.error("the store's tables cannot be written: no commits until they can", "err", err)
	case s.flush.Swap(nil) != nil:
		s.background.recovered("the store's tables are written again")
	}
}

// compacted notes how a merge of tables ended.
func (s *tableHealth) compacted(err error) {
	switch {
	case errors.Is(err, pebble.ErrCancelledCompaction):
	case err != nil:
		s.compact.Store(&err)
		s.background.error("the store's tables cannot be merged", "err", err)
	case s.compact.Swap(nil) != nil:
		s.background.recovered("the store's tables are merged again")
	}
}

// knows tells whether err is one of those that were noted.
func (s *tableHealth) knows(err error) bool {
	for _, noted := range []*error{s.flush.Load(), s.compact.Load()} {
		if noted != nil && errors.Is(err, *noted) {
			return true
		}
	}
	return false
}

// tableDisk is the disk of a store that waits for a moment before it makes a
// table when it could not write the last one.
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
