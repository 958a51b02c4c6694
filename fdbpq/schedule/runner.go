package schedule

import (
	"sync"
	"time"
)

// runner is what a process knows of its turn to fire.
type runner struct {
	mu       sync.Mutex
	differs  bool          // its clock differs, and nobody fires
	by       int64         // by how much
	since    time.Duration // since when, by the process's clock
	zoneData string        // the version of this program's zones

	replanBehind []byte // key behind which schedules are to be planned again by these zones; nil: from the first on

	late late
}

// agree notes that another process fires, or that this one may.
func (r *runner) agree() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.differs = false
}

// stays reports whether the wall clock has differed from schedule time by the same amount for
// so long that it counts.
func (r *runner) stays(by int64, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.differs || time.Duration(by-r.by).Abs() > clockAgrees {
		r.differs, r.by, r.since = true, by, now
	}
	return now-r.since >= clockStays
}

func (r *runner) replannedTo() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replanBehind
}

// replan notes how far the schedules are planned again, nil: all are.
func (r *runner) replan(behind []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replanBehind = behind
}
