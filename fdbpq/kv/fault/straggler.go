package fault

import (
	"context"
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// straggler is a transaction whose caller has been told that its result is
// unknown, and whose commit is still to come. It stands at the end of its
// closure: when it goes on, the engine validates and commits it like any other,
// unless it has become too old. Its closure never runs again.
type straggler struct {
	parked  chan struct{} // closed when the closure has run
	goAhead chan bool     // whether to commit
	ended   chan struct{} // closed when err is known
	err     error

	due int // points of other calls until it goes on; 0: not by itself
}

// maxDue is how many points of other calls a straggler may wait for. An Update
// has three.
const maxDue = 20

var (
	errDropped = errors.New("fault: a late commit that never comes")
	errStale   = errors.New("fault: a late commit that the engine would run again")
	errGone    = errors.New("fault: the closure ended its goroutine")
)

// updateLate runs a transaction up to its commit and returns.
func (db *DB) updateLate(c *call) error {
	s := &straggler{
		parked:  make(chan struct{}),
		goAhead: make(chan bool, 1),
		ended:   make(chan struct{}),
		err:     errGone,
	}
	go func() {
		defer close(s.ended)
		isParked := false
		// The commit outlives the caller and its context.
		s.err = db.base.Update(context.WithoutCancel(c.ctx), func(base kv.Tx) error {
			if isParked {
				return errStale
			}
			err := c.run(base)
			if err != nil || !c.wrote || c.fault.kind != UnknownLate {
				return err
			}
			isParked = true
			db.park(s, c.fault.scripted)
			close(s.parked)
			if !<-s.goAhead {
				return errDropped
			}
			return nil
		})
	}()
	select {
	case <-s.parked:
	case <-s.ended:
		if !isClosed(s.parked) {
			return c.result(s.err)
		}
	}
	c.endWatches()
	db.count(func(st *Stats) { st.Injected[UnknownLate]++ })
	return errUnknown(UnknownLate)
}

// park puts a straggler with the others, to go on at a later call or on demand.
// In a store that is being closed it goes on at once, or never.
func (db *DB) park(s *straggler, onDemand bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		s.goAhead <- db.rng.IntN(2) == 0
		return
	}
	if !onDemand {
		s.due = 1 + db.rng.IntN(maxDue)
	}
	db.late = append(db.late, s)
}

// settleDue lets those go on whose time has come.
func (db *DB) settleDue() {
	db.mu.Lock()
	var due, rest []*straggler
	for _, s := range db.late {
		if s.due == 1 {
			due = append(due, s)
			continue
		}
		if s.due > 1 {
			s.due--
		}
		rest = append(rest, s)
	}
	db.late = rest
	db.mu.Unlock()
	for _, s := range due {
		db.settle(s, true)
	}
}

// settle makes or drops a late commit, and tells whether it took effect.
func (db *DB) settle(s *straggler, commit bool) bool {
	s.goAhead <- commit
	<-s.ended
	db.count(func(st *Stats) {
		switch {
		case s.err == nil:
			st.LateDone++
		case s.err == errDropped:
			st.LateDropped++
		default:
			st.LateFailed++
		}
	})
	return s.err == nil
}

// takeLate returns all stragglers, in the order of their closures' ends.
func (db *DB) takeLate() []*straggler {
	db.mu.Lock()
	defer db.mu.Unlock()
	late := db.late
	db.late = nil
	return late
}

// Late tells how many commits are late.
func (db *DB) Late() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.late)
}

// Release makes all late commits, one after the other, and tells how many took
// effect. The others were in conflict with what was committed meanwhile, or too
// old.
func (db *DB) Release() (done int) {
	for _, s := range db.takeLate() {
		if db.settle(s, true) {
			done++
		}
	}
	return done
}

// Drop sees to it that no late commit ever takes effect.
func (db *DB) Drop() {
	for _, s := range db.takeLate() {
		db.settle(s, false)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
