package room

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pqd/internal/process"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/settings"
	"github.com/pqbridge/pqbridge/fdbpq/kv/local"
)

// Store says whether the embedded store takes new items. Below PQ_MIN_FREE it takes none, so that settlements,
// which make room, have space first. A push does not look at the disk: it counts its bytes, and brings the next
// look forward when many bytes were counted since the last one. While the store takes no items, Store makes it
// free the space of drained and purged items: without pushes nothing else would do so soon.
//
// Half of PQ_MIN_FREE is the reserve. While no more is free, the store serves only what makes room: leases and changes
// without end can neither take it nor keep the store from freeing space. Below half of the reserve the store writes no item again:
// many leases that end at once would take the rest faster than compactions give it back.
//
// Beside all that the store has a spare file, which it gives up when a write finds no room. Store has it made again before anything
// else gets that room. While hardly more than that is free, the store serves only what ends items, many or one, and nothing else:
// settlements would take the rest bit by bit, of millions of leases.
type Store struct {
	look   func() (free, least int64) // free bytes of the disk, less what memory has still to write; bytes that have to stay free
	engine engine
	spare  spareFile
	log    *slog.Logger
	left   atomic.Int64 // free bytes at the last look, less the bytes counted since
	soon   atomic.Int64 // with less left the next look comes at once
	due    chan struct{}

	// From much room to hardly any.
	full, reserve, low, last level

	reclaimed time.Time   // when reclaim was called last
	held      int64       // bytes of the spare file at the last look
	wasFull   bool        // at a look since then: items drained meanwhile have to be freed, too
	refused   atomic.Bool // new items, by count, since the last look: the room is too small for them alone
}

// engine is an embedded store.
type engine interface {
	spares
	Reclaim()
	ReclaimCleared()
}

const (
	roomEvery = time.Second           // between looks at the disk
	fullEvery = 50 * time.Millisecond // between looks at a disk that is nearly full: all writes count now, not only pushes
	roomPause = 10 * time.Millisecond // between looks that come early

	// reclaimEvery is the time between calls of reclaim: each makes the store compact tables.
	reclaimEvery = 3 * time.Second
)

// Watch makes the store refuse new items while its disk is nearly full. nil: no room has to stay
// free.
func Watch(ctx context.Context, s settings.Settings, db *local.DB, log *slog.Logger, started *process.Running) *Store {
	least := s.MinFree
	if least.Set && least.Bytes == 0 {
		return nil
	}
	dir := s.Store.Place
	r := newStore(func() (int64, int64) {
		free, size, err := Free(dir)
		if err != nil {
			return math.MaxInt64, 0 // it is gone, which /readyz reports
		}
		if n, err := db.Metrics(); err == nil {
			free -= int64(n.Unflushed)
		}
		return free, least.Of(size)
	}, db, log)
	started.InBackground(context.WithoutCancel(ctx), r.watch) // requests that pqd still serves while it stops are counted, too
	return r
}

func newStore(look func() (free, least int64), engine engine, log *slog.Logger) *Store {
	r := &Store{look: look, engine: engine, spare: spareFile{of: engine, log: log}, log: log, due: make(chan struct{}, 1)}
	r.full = level{
		severity: slog.LevelWarn,
		begins:   "the disk of the store is nearly full: new items are refused, and everything else goes on",
		ends:     "the disk of the store has room for new items again",
	}
	r.reserve = level{
		severity: slog.LevelError,
		begins:   "the disk of the store is full: only requests that make room are served",
		ends:     "the disk of the store has room for leases and changes again",
	}
	r.low = level{
		severity: slog.LevelError,
		begins:   "the disk of the store is full: items do not return to their queues",
		ends:     "the disk of the store has room for items that return to their queues again",
	}
	r.last = level{
		severity: slog.LevelError,
		begins:   "the disk of the store is nearly full to the last byte: only remove, purge and delete are served",
		ends:     "the disk of the store has room for settlements again",
	}
	r.update()
	return r
}

// What df counts as free, and Store does not.
const (
	lessUnwritten  = ", less what memory has still to write there"
	lessSpare      = " and the spare file, which is to be made"
	lessSpareAlone = ", less the spare file, which is to be made"
)

var errRoomCounted = errors.New("the disk of the store has just come near to PQ_MIN_FREE")

// Admit counts new items of this many bytes, and says why the store does not take them, or
// nil.
func (r *Store) Admit(bytes int) error {
	if why := r.full.why(); why != nil {
		return why
	}
	left := r.left.Add(-int64(bytes))
	if left < r.soon.Load() {
		select {
		case r.due <- struct{}{}:
		default:
		}
	}
	if left < 0 {
		r.refused.Store(true)
		return errRoomCounted
	}
	return nil
}

// Reserve says why the store serves only what makes room, or nil.
func (r *Store) Reserve() error {
	if why := r.reserve.why(); why != nil {
		return cmp.Or(r.Last(), why)
	}
	return nil
}

// Low says why the store writes no item again, or nil.
func (r *Store) Low() error {
	if why := r.low.why(); why != nil {
		return cmp.Or(r.Last(), why)
	}
	return nil
}

// Last says why the store serves only what ends items, or nil. Then Reserve says so, too.
func (r *Store) Last() error { return r.last.why() }

// update looks at the disk.
func (r *Store) update() {
	onDisk, least := r.look()
	held, size := r.engine.Spare()
	free := r.spare.keep(onDisk, least)
	less := lessUnwritten
	if free < onDisk && size > held {
		less += lessSpare
	}
	r.last.note(r.log, isLast(free, size, r.Last() != nil), func() error { return lastRoom(free, least, less) })
	r.reserve.note(r.log, free < r.reserve.bound(least/reservePart), func() error { return onlyReserve(free, least, less) })
	r.low.note(r.log, free < r.low.bound(least/lowPart), func() error { return halfReserve(free, least, less) })
	r.soon.Store((free - least) / 2)
	r.left.Store(free - least)
	bound := r.full.bound(least)
	r.full.note(r.log, free < bound, func() error { return tooLittle(free, bound, less) })
	full := r.full.why() != nil || r.refused.Swap(false)
	r.wasFull = r.wasFull || full
	if r.held > 0 && held == 0 {
		r.reclaimed = time.Time{} // as long as its room is there: without it a start, or a purge, needs room for all in memory
	}
	r.held = held
	if r.wasFull && onDisk+held > 0 && time.Since(r.reclaimed) >= reclaimEvery { // it takes room at first
		r.reclaimed, r.wasFull = time.Now(), full
		if r.Last() != nil && held > 0 {
			r.engine.ReclaimCleared() // otherwise the spare file goes for nothing
		} else {
			r.engine.Reclaim()
		}
	}
}

// every is the time between looks.
func (r *Store) every() time.Duration {
	if r.full.why() != nil {
		return fullEvery
	}
	return roomEvery
}

// watch looks at the disk until ctx ends.
func (r *Store) watch(ctx context.Context) {
	wait := func(d time.Duration, early <-chan struct{}) bool {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-early:
		case <-ctx.Done():
			return false
		}
		return true
	}
	for wait(roomPause, nil) && wait(r.every()-roomPause, r.due) {
		r.update()
	}
}

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
