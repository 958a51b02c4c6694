package room

import (
	"log/slog"
	"time"
)

// spares is what has a spare file: an embedded store, or a node's copy.
type spares interface {
	Spare() (has, want int64)
	KeepSpare() error
}

// spareFile keeps a spare file.
type spareFile struct {
	of  spares
	log *slog.Logger

	kept  time.Time // when the file was to be made last
	fails bool      // it could not be made then
}

const (
	// lastPart is the part of the spare file's size that is free besides when the store serves more than what ends items: below it
	// the next flush may take the file.
	lastPart = 4

	// spareEvery is the time between attempts to make a spare file for which the disk has no room, though it says so.
	spareEvery = time.Minute
)

// keep has the spare file made when there is clearly room for what is missing of it, and returns what is free besides: as long as it
// is not there, its room counts as taken, so that nothing else gets it.
func (s *spareFile) keep(free, least int64) int64 {
	has, want := s.of.Spare()
	missing := want - has
	switch {
	case missing <= 0:
		s.fails = false
		return free
	case s.fails && time.Since(s.kept) < spareEvery:
		return free
	case free-missing < least/reservePart+least/reservePart/moreRoom:
		return free - missing
	}
	s.kept = time.Now()
	if err := s.of.KeepSpare(); err != nil {
		s.fails = true
		s.log.Warn("the spare file of the store cannot be made: on a full disk nothing may work, not even a purge", "error", err)
		return free
	}
	s.fails = false
	return free - missing
}

// isLast reports whether so little is free besides a spare file of a size that only what ends items is served. was says that it was
// so before: then more has to be free.
func isLast(free, size int64, was bool) bool {
	bound := size / lastPart
	if was {
		bound *= 2
	}
	return size > 0 && free < bound
}
