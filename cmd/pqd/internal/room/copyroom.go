package room

import (
	"cmp"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Copy says what a node of several refuses when its disk is nearly full, and keeps the spare file of its copy. The node's part of the
// log is on that disk, too, and what writes the log knows of no spare file. So Copy gives the file up before the disk is full.
type Copy struct {
	look  func() (free, least int64, err error)
	log   *slog.Logger
	spare atomic.Pointer[spareFile] // nil: the copy is not open yet
	owed  atomic.Int64              // bytes of the spare file that are missing, and count as taken
	last  level                     // hardly any room is left
}

// copied is a copy that has a spare file.
type copied interface {
	spares
	GiveUpSpare() error
}

// NewCopy returns the room of the node with these settings.
func NewCopy(s settings.Settings, log *slog.Logger) *Copy {
	return newCopy(func() (int64, int64, error) {
		free, size, err := Free(string(s.Data))
		return free, s.MinFree.Of(size), err
	}, log)
}

func newCopy(look func() (free, least int64, err error), log *slog.Logger) *Copy {
	return &Copy{look: look, log: log, last: level{
		severity: slog.LevelError,
		begins:   "the disk of the store is nearly full to the last byte: while this node is active, only remove, purge and delete are served",
		ends:     "the disk of the store has room for settlements again",
	}}
}

// Of notes that the copy is open.
func (c *Copy) Of(copied copied) { c.spare.Store(&spareFile{of: copied, log: c.log}) }

// Look looks at the disk, and says why it should take no new items, or nil. One goroutine calls it, once a second.
func (c *Copy) Look() error {
	free, least, err := c.look()
	if err != nil {
		return nil // /readyz reports a disk that is gone
	}
	besides, less := free, ""
	if s := c.spare.Load(); s != nil {
		if c.giveUp(s, free) {
			return tooLittle(free, least, less) // the next look sees what is free then
		}
		besides = s.keep(free, least)
		has, want := s.of.Spare()
		if besides < free && has < want {
			less = lessSpareAlone
		}
		c.last.note(c.log, isLast(besides, want, c.Last() != nil), func() error { return lastRoom(besides, least, less) })
	}
	c.owed.Store(0)
	if less != "" {
		c.owed.Store(free - besides)
	}
	if besides >= least {
		return nil
	}
	return tooLittle(besides, least, less)
}

// giveUp removes the spare file when little is free, and reports whether it did.
func (c *Copy) giveUp(s *spareFile, free int64) bool {
	has, want := s.of.Spare()
	if has == 0 || !isLast(free, want, false) {
		return false
	}
	if err := s.of.(copied).GiveUpSpare(); err != nil {
		c.log.Error("the disk of the store is full, and the spare file cannot be removed", "error", err)
		return false
	}
	c.log.Error("the disk of the store is nearly full to the last byte: the spare file is given up, which gives room to the log and to the store", "bytes", has)
	return true
}

// Exhausted says why a disk has so little free that only requests that make room should be served, or nil. It looks at the disk.
func (c *Copy) Exhausted() error { return c.below(reservePart, onlyReserve) }

// Low says why a disk has so little free that no item should be written again, or nil. It looks at the disk.
func (c *Copy) Low() error { return c.below(lowPart, halfReserve) }

// below says why less than a part of PQ_MIN_FREE is free, or nil.
func (c *Copy) below(part int64, why func(free, least int64, less string) error) error {
	free, least, err := c.look()
	if free -= c.owed.Load(); err != nil || free >= least/part {
		return nil
	}
	return cmp.Or(c.Last(), why(free, least, ""))
}

// Last says why only what ends items should be served, or nil.
func (c *Copy) Last() error { return c.last.why() }

// GiveUpEarly removes the spare file of a node's copy at a start on a disk that is full: the NATS server of the node starts before the
// copy is open, and cannot do so without room.
func GiveUpEarly(s settings.Settings, log *slog.Logger) error {
	free, size, err := Free(string(s.Data))
	if err != nil {
		return nil // there may be no directory yet
	}
	return giveUpEarly(s.CopyDir(), free, s.MinFree.Spare(size), log)
}

func giveUpEarly(dir string, free, want int64, log *slog.Logger) error {
	if !isLast(free, want, false) {
		return nil
	}
	switch err := os.Remove(filepath.Join(dir, local.SpareName)); {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	}
	log.Error("the disk of the store is nearly full to the last byte: the spare file is given up at the start", "free", free)
	return nil
}
