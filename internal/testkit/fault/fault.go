// Package fault injects faults that package kv allows into a store, for tests of its
// users. [Wrap] wraps any engine:
//
//   - A run of a closure is discarded as after a conflict, and repeated.
//   - The store is unavailable: nothing runs.
//   - A commit has an unknown result. It never takes effect, or has taken effect, or
//     takes effect later, when its caller has moved on; the engine still checks a late
//     commit for conflicts.
//   - The connection breaks, or the process dies, during transactions.
//
// Faults are random, from a seed, or scripted by the test. A hook lets a test order
// events. Nothing here waits for time to pass or runs in the background: a late commit
// happens within a later call.
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

// Kind is a fault in a run of a closure. Unknown results occur only in transactions that
// write.
type Kind int

const (
	None         Kind = iota
	Conflict          // the run is discarded and the closure runs again
	Unavailable       // ErrUnavailable; the closure does not run
	UnknownNever      // ErrUnknown; the commit never takes effect
	UnknownDone       // ErrUnknown; the commit has taken effect
	UnknownLate       // ErrUnknown; the commit takes effect later, unless it conflicts
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
// they are at most 1. In a View only Conflict and Unavailable occur.
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

// Point is a point in a call at which other calls can be scheduled.
type Point int

const (
	BeforeRun    Point = iota // the closure is about to run
	BeforeCommit              // the closure of an Update has run without an error
	AfterCommit               // an Update has taken effect and is about to return
)

// Options configure a wrapped store. The zero value injects no random faults.
type Options struct {
	Seed    uint64
	Chances Chances

	// Yield makes calls yield the processor at random, so that they overlap more
	// often.
	Yield bool

	// Hook is called at the points of calls, with the context of the call. It
	// may block, and it may use the store.
	Hook func(ctx context.Context, at Point)
}

// Stats counts what happened.
type Stats struct {
	Updates, Views int          // calls
	Runs           int          // runs of closures
	Reruns         int          // runs that the engine repeated
	Injected       map[Kind]int // faults

	// Results of late commits.
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
	late      []*lateCommit
	watches   []*kv.Watch // of committed transactions; some have ended
	stats     Stats
}

// condition is the state of the process's connection to the store.
type condition int

const (
	connected condition = iota
	disconnected
	crashed
)

var _ kv.DB = (*DB)(nil)

// Wrap returns base with faults. Close the wrapper, which closes base; base.Close would
// wait for late commits.
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

// Brief implements [kv.Brief], as far as base does.
func (db *DB) Brief() int { return kv.BriefOf(db.base) }

// FailNext scripts faults for the next runs of closures in Update, one for each run;
// they precede random ones. A fault that does not fit a run, because the closure fails or
// writes nothing, is kept for the next run. None scripts a run without a fault. A
// scripted late commit waits for Release, Drop or Close.
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

// Reconnect ends the effect of Disconnect.
func (db *DB) Reconnect() { db.become(connected) }

// Crash ends the process that uses the store, but not the store. Calls fail with
// ErrClosed from now on, watches end, and transactions that are about to commit
// have an unknown result. The base belongs to the next process: Close does not close it
// any more. Late commits stay under way.
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

// Close implements kv.DB. It commits or drops late commits at random.
func (db *DB) Close() error {
	db.mu.Lock()
	if db.closed {
		db.mu.Unlock()
		return kv.ErrClosed
	}
	db.closed = true // no commit becomes late from here on
	late := db.late
	db.late = nil
	db.mu.Unlock()
	for _, s := range late {
		db.finishLate(s, db.coin())
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
		if err != errDiscarded {
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
			db.finishDueLate()
			if err := fn(r); err != nil {
				return err
			}
			if f.kind == Conflict {
				return errDiscarded
			}
			return nil
		})
		if err != errDiscarded {
			return err
		}
		db.count(func(s *Stats) { s.Injected[Conflict]++ })
	}
}

// enter admits a call. The caller must call active.Done.
func (db *DB) enter() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed || db.condition == crashed {
		return kv.ErrClosed
	}
	db.active.Add(1)
	return nil
}

// injection is the fault chosen for a run.
type injection struct {
	kind     Kind
	scripted bool // by FailNext
}

// draw chooses the fault of a run, or returns an error instead of a run.
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

// requeue keeps a scripted fault that did not happen for the next run.
func (db *DB) requeue(f injection) {
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
