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

	// Why there is too little room, from much to hardly any.
	full    atomic.Pointer[error]
	reserve atomic.Pointer[error] // the reserve alone is left
	low     atomic.Pointer[error] // half of it
	last    atomic.Pointer[error] // hardly more than the spare file

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
func Watch(ctx context.Context, s settings.Settings, db *local.DB, log *slog.Logger, started *process.Parts) *Store {
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
	if why := r.full.Load(); why != nil {
		return *why
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
	if why := r.reserve.Load(); why != nil {
		return cmp.Or(r.Last(), *why)
	}
	return nil
}

// Low says why the store writes no item again, or nil.
func (r *Store) Low() error {
	if why := r.low.Load(); why != nil {
		return cmp.Or(r.Last(), *why)
	}
	return nil
}

// Last says why the store serves only what ends items, or nil. Then Reserve says so, too.
func (r *Store) Last() error {
	if why := r.last.Load(); why != nil {
		return *why
	}
	return nil
}

// update looks at the disk.
func (r *Store) update() {
	onDisk, least := r.look()
	held, size := r.engine.Spare()
	free := r.spare.keep(onDisk, least)
	less := lessUnwritten
	if free < onDisk && size > held {
		less += lessSpare
	}
	r.updateLast(free, least, size, less)
	r.updateReserve(free, least, less)
	r.updateLow(free, least, less)
	r.soon.Store((free - least) / 2)
	r.left.Store(free - least)
	was := r.full.Load()
	if was != nil {
		least += least / moreRoom
	}
	switch {
	case free < least:
		why := tooLittle(free, least, less)
		r.full.Store(&why)
		if was == nil {
			r.log.Warn("the disk of the store is nearly full: new items are refused, and everything else goes on", "why", why)
		}
	case was != nil:
		r.full.Store(nil)
		r.log.Info("the disk of the store has room for new items again")
	}
	full := r.full.Load() != nil || r.refused.Swap(false)
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

// updateLast notes whether hardly the room of the spare file is left.
func (r *Store) updateLast(free, least, size int64, less string) {
	was := r.last.Load()
	switch {
	case isLast(free, size, was != nil):
		why := lastRoom(free, least, less)
		r.last.Store(&why)
		if was == nil {
			r.log.Error("the disk of the store is nearly full to the last byte: only remove, purge and delete are served", "why", why)
		}
	case was != nil:
		r.last.Store(nil)
		r.log.Info("the disk of the store has room for settlements again")
	}
}

// updateReserve notes whether the reserve alone is left.
func (r *Store) updateReserve(free, least int64, less string) {
	reserve, was := least/reservePart, r.reserve.Load()
	if was != nil {
		reserve += reserve / moreRoom
	}
	switch {
	case free < reserve:
		why := onlyReserve(free, least, less)
		r.reserve.Store(&why)
		if was == nil {
			r.log.Error("the disk of the store is full: only requests that make room are served", "why", why)
		}
	case was != nil:
		r.reserve.Store(nil)
		r.log.Info("the disk of the store has room for leases and changes again")
	}
}

// updateLow notes whether no item is written again.
func (r *Store) updateLow(free, least int64, less string) {
	bound, was := least/lowPart, r.low.Load()
	if was != nil {
		bound += bound / moreRoom
	}
	switch {
	case free < bound:
		why := halfReserve(free, least, less)
		r.low.Store(&why)
		if was == nil {
			r.log.Error("the disk of the store is full: items do not return to their queues", "why", why)
		}
	case was != nil:
		r.low.Store(nil)
		r.log.Info("the disk of the store has room for items that return to their queues again")
	}
}

// every is the time between looks.
func (r *Store) every() time.Duration {
	if r.full.Load() != nil {
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
