package schedule

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

const runnerTerm = 2 * time.Second

// now is schedule time in nanoseconds since 1970. Before a process has fired, it is the
// wall clock of this one.
func (s *Schedules) now(r kv.Reader) (int64, error) {
	now, err := s.inside.Clock.At(r)
	if err != nil {
		return 0, err
	}
	offset, known, err := clockOffset(r)
	if err != nil {
		return 0, err
	}
	if !known {
		return s.inside.Clock.Wall().UnixNano(), nil
	}
	return now + offset, nil
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

// becomeRunner makes this process the one that fires, and reports whether it is.
func (f *firing) becomeRunner() (ready bool, err error) {
	s := f.Schedules
	now, err := s.inside.Clock.At(f.tx.Snapshot())
	if err != nil {
		return false, err
	}
	own, until, err := s.inside.Term(f.tx, layout.SpaceRunner)
	if err != nil {
		return false, err
	}
	offset, known, err := clockOffset(f.tx)
	if err != nil {
		return false, err
	}
	difference := s.inside.Clock.Wall().UnixNano() - (now + offset)
	far := time.Duration(difference).Abs() > clockAgrees
	if f.fired.Offset = time.Duration(-difference); !known {
		f.fired.Offset, far = 0, false
	}
	if !own && until > now {
		s.runner.agree()
		f.fired.Busy, f.fired.Next = true, time.Duration(until-now)
		return false, nil
	}
	if far && !s.runner.stays(difference, s.inside.Clock.Elapsed()) {
		f.fired.Next = storetime.Every
		return false, nil
	}
	if far {
		f.fired.Clock = time.Duration(difference)
	} else {
		s.runner.agree()
	}
	if !known || time.Duration(difference).Abs() > clockSlack {
		offset += difference
		f.tx.Set(layout.Row(layout.SpaceScheduleClock), tuple.AppendInt(nil, offset))
		f.fired.Offset = 0
	}
	if !own || until-now < int64(runnerTerm)/2 {
		s.inside.Take(f.tx, layout.SpaceRunner, now+int64(runnerTerm))
	}
	f.now = now + offset
	return true, f.replan()
}
