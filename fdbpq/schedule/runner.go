package schedule

import (
	"fmt"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Schedules go by schedule time: store time and an offset, which a row has. So all processes
// agree on it, whatever their wall clocks say. The process that fires keeps it at its own wall
// clock.

const (
	runnerTerm = 2 * time.Second

	// clockAgrees is how far a wall clock may be from schedule time. A process with such a clock
	// may fire. It sets schedule time right if the difference is more than clockSlack.
	clockAgrees = 2 * time.Second
	clockSlack  = 50 * time.Millisecond

	// clockStays is how long a wall clock has to differ by the same amount, while nobody fires,
	// before its process sets schedule time by it. A clock that is set wrong for a moment changes
	// nothing, and a process that was restarted finds its place still free.
	clockStays = 60 * time.Second
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

// replan notes the key up to which the schedules are planned again, nil for all of them.
func (r *runner) replan(behind []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replanBehind = behind
}

// planned keeps a promise of the row that has a version of the zones of the tz database: no time of a schedule was planned
// with older zones.
func (r *runner) planned(tx kv.Tx, row *record) error {
	if row.next == 0 || row.config.Zone == "UTC" {
		return nil
	}
	version, err := zonesVersion(tx.Snapshot())
	if err == nil && version > r.zoneData {
		tx.Set(zonesRow(), []byte(r.zoneData))
	}
	return err
}

func zonesRow() []byte { return layout.Row(layout.SpaceZones) }

func zonesVersion(r kv.Reader) (string, error) {
	value, err := r.Get(zonesRow())
	return string(value), err
}

func clockOffset(r kv.Reader) (offset int64, known bool, err error) {
	value, err := r.Get(layout.Row(layout.SpaceScheduleClock))
	if err != nil || value == nil {
		return 0, false, err
	}
	if offset, _, err = tuple.ConsumeInt(value); err != nil {
		return 0, false, fmt.Errorf("damaged clock of schedules: %w", err)
	}
	return offset, true, nil
}
