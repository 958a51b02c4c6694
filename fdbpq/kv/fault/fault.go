// Package fault makes a store misbehave in the ways that package kv allows, for
// tests of what is built on it. [Wrap] puts a layer on top of any engine:
//
//   - A run of a closure is thrown away as after a conflict, and repeated.
//   - The store is unavailable, and does nothing.
//   - A commit has an unknown result: it never takes effect, or it has already,
//     or it does so later. In the last case the engine still validates it by
//     what it read, at a time when its caller has long moved on.
//   - The connection breaks, or the process dies, in the midst of transactions.
//
// Faults come by chance, from a seed, or one by one as a test demands them. A
// hook lets a test order events where the order matters. Nothing here waits for
// time to pass, and nothing goes on by itself: a late commit happens within a
// later call.
package fault

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// Kind is what can happen to a run of a closure. Only transactions that wrote
// something meet the unknown results.
type Kind int

const (
	None         Kind = iota
	Conflict          // the run is thrown away and the closure runs again
	Unavailable       // ErrUnavailable; the closure does not run
	UnknownNever      // ErrUnknown; the commit never takes effect
	UnknownDone       // ErrUnknown; the commit has taken effect
	UnknownLate       // ErrUnknown; the commit is still to come
)

func (k Kind) String() string {
	switch k {
	case None:
		return "none"
	case Conflict:
		return "conflict"
	case Unavailable:
		return "unavailable"
	case UnknownNever:
		return "unknown, never done"
	case UnknownDone:
		return "unknown, done"
	case UnknownLate:
		return "unknown, done late"
	}
	return fmt.Sprintf("Kind(%d)", int(k))
}

// Chances are the probabilities of faults in each run of a closure; together
// they are at most 1. Of these a View meets Conflict and Unavailable only.
type Chances map[Kind]float64

// pick returns the fault at x, a number from 0 up to 1.
func (c Chances) pick(x float64) Kind {
	for kind := Conflict; kind <= UnknownLate; kind++ {
		if x -= c[kind]; x < 0 {
			return kind
		}
	}
	return None
}

// Point is a place in a call where others may get in between.
type Point int

const (
	BeforeRun    Point = iota // the closure is about to run
	BeforeCommit              // the closure of an Update has run without an error
	AfterCommit               // an Update has taken effect and is about to return
)

// Options vary a wrapped store. The zero value injects nothing by itself.
type Options struct {
	Seed    uint64
	Chances Chances

	// Yield makes calls give up the processor now and then, so that they meet
	// more often.
	Yield bool

	// Hook is called at the points of calls, with the context of the call. It
	// may block, and it may use the store.
	Hook func(ctx context.Context, at Point)
}

// Stats counts what happened.
type Stats struct {
	Updates, Views int          // calls
	Runs           int          // runs of closures
	Reruns         int          // runs that the engine repeated of its own accord
	Injected       map[Kind]int // faults

	// What became of commits that were late.
	LateDone, LateFailed, LateDropped int
}

// DB is a store with faults.
type DB struct {
	base   kv.DB
	yield  bool
	hook   func(context.Context, Point)
	active sync.WaitGroup // calls

	mu        sync.Mutex
	rng       *rand.Rand
	chances   Chances
	script    []Kind
	condition condition
	closed    bool
	late      []*straggler
	watches   []*kv.Watch // of committed transactions; some have ended
	stats     Stats
}

// condition is how the process stands to its store.
type condition int

const (
	connected condition = iota
	disconnected
	crashed
)

var _ kv.DB = (*DB)(nil)

// Wrap returns base with faults. Close the wrapper, and that closes base: the
// other way round, Close would wait for commits that are late.
func Wrap(base kv.DB, opts Options) *DB {
	return &DB{
		base:    base,
		yield:   opts.Yield,
		hook:    opts.Hook,
		rng:     rand.New(rand.NewPCG(opts.Seed, 0)),
		chances: opts.Chances,
		stats:   Stats{Injected: map[Kind]int{}},
	}
}

// FailNext demands faults for the coming runs of closures in Update, one for
// each run, ahead of those that come by chance. What does not fit a run, because
// its closure fails or writes nothing, is kept for the next one. None demands a
// run without a fault. A commit that is late on demand waits for Release, Drop
// or Close.
func (db *DB) FailNext(faults ...Kind) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.script = append(db.script, faults...)
}

// SetChances changes the probabilities of faults; nil stands for none.
func (db *DB) SetChances(chances Chances) {
	db.mu.Lock()
	defer db.mu.Unlock()
	db.chances = chances
}

// Stats returns the counts so far.
func (db *DB) Stats() Stats {
	db.mu.Lock()
	defer db.mu.Unlock()
	stats := db.stats
	stats.Injected = maps.Clone(stats.Injected)
	return stats
}

// Disconnect makes the store unavailable until Reconnect. Watches end, and
// transactions that are about to commit have an unknown result: some take
// effect, some never do.
func (db *DB) Disconnect() { db.become(disconnected) }

// Reconnect ends what Disconnect began.
func (db *DB) Reconnect() { db.become(connected) }

// Crash ends the process that uses the store, but not the store. Calls fail with
// ErrClosed from now on, watches end, and transactions that are about to commit
// have an unknown result. The store below belongs to the next process: Close
// does not close it any more. Late commits are as they were, on their way.
func (db *DB) Crash() { db.become(crashed) }

func (db *DB) become(c condition) {
	var ended []*kv.Watch
	db.mu.Lock()
	if db.condition != crashed {
		db.condition = c
	}
	if db.condition != connected {
		ended, db.watches = db.watches, nil
	}
	db.mu.Unlock()
	for _, w := range ended {
		w.Cancel()
	}
}

// Close implements kv.DB. Commits that are still late are made or dropped, as
// chance will have it.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return kv.ErrClosed
	}
	db.closed = true // from here on, no commit is late
	late := db.late
	db.late = nil
	db.mu.Unlock()
	for _, s := range late {
		db.settle(s, db.coin())
	}
	db.active.Wait()

	db.mu.Lock()
	ownsBase := db.condition != crashed
	db.mu.Unlock()
	if !ownsBase {
		return nil
	}
	return db.base.Close()
}

// Update implements kv.DB.
func (db *DB) Update(ctx context.Context, fn func(kv.Tx) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.active.Done()
	db.count(func(s *Stats) { s.Updates++ })
	for {
		f, err := db.draw(ctx, true)
		if err != nil {
			return err
		}
		c := &call{db: db, ctx: ctx, fn: fn, fault: f}
		if f.kind == UnknownLate {
			err = db.updateLate(c)
		} else {
			err = c.result(db.base.Update(ctx, c.run))
		}
		if err != errThrownAway {
			return err
		}
	}
}

// View implements kv.DB.
func (db *DB) View(ctx context.Context, fn func(kv.Reader) error) error {
	if err := db.enter(); err != nil {
		return err
	}
	defer db.active.Done()
	db.count(func(s *Stats) { s.Views++ })
	for {
		f, err := db.draw(ctx, false)
		if err != nil {
			return err
		}
		runs := 0
		err = db.base.View(ctx, func(r kv.Reader) error {
			runs++
			db.countRun(runs)
			db.at(ctx, BeforeRun)
			if err := fn(r); err != nil {
				return err
			}
			if f.kind == Conflict {
				return errThrownAway
			}
			return nil
		})
		if err != errThrownAway {
			return err
		}
		db.count(func(s *Stats) { s.Injected[Conflict]++ })
	}
}

// enter lets a call in. The caller must call active.Done.
func (db *DB) enter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.condition == crashed {
		return kv.ErrClosed
	}
	db.active.Add(1)
	return nil
}

// injection is a fault that may happen to a run.
type injection struct {
	kind     Kind
	scripted bool // by FailNext
}

// draw decides about a run, or that there is none.
func (db *DB) draw(ctx context.Context, update bool) (injection, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	switch {
	case db.condition == crashed:
		return injection{}, kv.ErrClosed
	case db.condition == disconnected:
		return injection{}, fmt.Errorf("%w: disconnected", kv.ErrUnavailable)
	case ctx.Err() != nil:
		return injection{}, fmt.Errorf("%w: %w", kv.ErrUnavailable, ctx.Err())
	}
	var f injection
	if update && len(db.script) > 0 {
		f = injection{kind: db.script[0], scripted: true}
		db.script = db.script[1:]
	} else {
		f.kind = db.chances.pick(db.rng.Float64())
		if !update && f.kind > Unavailable {
			f.kind = None
		}
	}
	if f.kind == Unavailable {
		db.stats.Injected[Unavailable]++
		return f, fmt.Errorf("%w: injected", kv.ErrUnavailable)
	}
	return f, nil
}

// giveBack keeps a fault that did not happen for the next run.
func (db *DB) giveBack(f injection) {
	if f.scripted && f.kind != None {
		db.mu.Lock()
		defer db.mu.Unlock()
		db.script = append([]Kind{f.kind}, db.script...)
	}
}

// at is called at a point of a call.
func (db *DB) at(ctx context.Context, point Point) {
	if db.yield {
		db.mu.Lock()
		n := db.rng.IntN(4)
		db.mu.Unlock()
		for range n {
			runtime.Gosched()
		}
	}
	if db.hook != nil {
		db.hook(ctx, point)
	}
	db.settleDue()
}

func (db *DB) coin() bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	return db.rng.IntN(2) == 0
}

func (db *DB) count(what func(*Stats)) {
	db.mu.Lock()
	defer db.mu.Unlock()
	what(&db.stats)
}

func (db *DB) countRun(n int) {
	db.count(func(s *Stats) {
		s.Runs++
		if n > 1 {
			s.Reruns++
		}
	})
}
