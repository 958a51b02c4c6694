package fault

import (
	"context"
	"errors"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// lateCommit is a transaction whose caller has got ErrUnknown, and whose commit follows later. It waits at the end
// of its closure. When it continues, the engine checks and commits it like any other, unless it is too old. Its
// closure never runs again. If the closure has run before, the commit follows at once: others may wait for it.
type lateCommit struct {
	parked chan struct{} // closed when the closure has run
	commit chan bool     // whether to commit
	ended  chan struct{} // closed when err is known
	err    error

	due int // points of other calls until it continues; 0: only on demand
}

// maxDue bounds the points of other calls that a late commit waits for. An Update has
// three.
const maxDue = 20

var (
	errDropped = errors.New("fault: the late commit was dropped")
	errStale   = errors.New("fault: the engine would run the late commit again")
	errExited  = errors.New("fault: the closure ended its goroutine")
)

// updateLate runs a transaction up to its commit and returns.
func (db *DB) updateLate(c *call) error {
	s := &lateCommit{
		parked: make(chan struct{}),
		commit: make(chan bool, 1),
		ended:  make(chan struct{}),
		err:    errExited,
	}
	isParked := false
	go func() {
		defer close(s.ended)
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
			if c.runs > 1 {
				return nil
			}
			db.park(s, c.fault.scripted)
			close(s.parked)
			if !<-s.commit {
				return errDropped
			}
			return nil
		})
	}()
	select {
	case <-s.parked:
	case <-s.ended:
		if !isParked {
			return c.result(s.err)
		}
	}
	c.endWatches()
	db.count(func(st *Stats) { st.Injected[UnknownLate]++ })
	return errUnknown(UnknownLate)
}

// park keeps a late commit, to continue at a later call or on demand. In a store that is
// being closed it commits at once or is dropped.
func (db *DB) park(s *lateCommit, onDemand bool) {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		s.commit <- db.rng.IntN(2) == 0
		return
	}
	if !onDemand {
		s.due = 1 + db.rng.IntN(maxDue)
	}
	db.late = append(db.late, s)
}

// finishDueLate finishes late commits that are due.
func (db *DB) finishDueLate() {
	db.mu.Lock()
	var due, rest []*lateCommit
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
		db.finishLate(s, true)
	}
}

// finishLate commits or drops a late commit, and reports whether it took effect.
func (db *DB) finishLate(s *lateCommit, commit bool) bool {
	s.commit <- commit
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

// takeLate removes and returns all late commits, in the order of their closures' ends.
func (db *DB) takeLate() []*lateCommit {
	db.mu.Lock()
	defer db.mu.Unlock()
	late := db.late
	db.late = nil
	return late
}

// Late returns the number of late commits.
func (db *DB) Late() int {
	db.mu.Lock()
	defer db.mu.Unlock()
	return len(db.late)
}

// Release commits all late commits, one after the other, and returns how many took
// effect. The others conflicted with later commits, or were too old.
func (db *DB) Release() (done int) {
	for _, s := range db.takeLate() {
		if db.finishLate(s, true) {
			done++
		}
	}
	return done
}

// Drop drops all late commits.
func (db *DB) Drop() {
	for _, s := range db.takeLate() {
		db.finishLate(s, false)
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
