package schedule

import "time"

// Schedule is a schedule as it stands.
type Schedule struct {
	Name   string
	Config Config
	Item   Item

	Next, Due time.Time // its next time, and when it fires with its jitter; zero: none
	Last      time.Time // the last time that fired; zero: none
	Full      bool      // its time has come, and the queue takes no items

	Fired, Missed, Overlapped int64

	Dropped int64 // of Missed, those that the change that answers has dropped

	done bool
}

// Done reports whether it has no further time.
func (s *Schedule) Done() bool { return s.done }

// Summary is what the schedules of a queue are together.
type Summary struct {
	Count int64
	Next  time.Time // the first time of all of them; zero: no schedule has one, or they are too many to look at
}
