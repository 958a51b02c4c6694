package schedule

import (
	"cmp"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// progress is how far a schedule is. Its times are schedule times.
type progress struct {
	created          int64
	after            int64 // it is done with all times up to this one
	next             int64 // its first time behind that; 0: there is none, or it is paused
	due              int64 // when it fires, or goes; 0: never
	last             int64 // the last time that fired; 0: none
	lastReportMinute int64 // minute in which its last misses were reported
	full             bool  // the queue took no item
	dense            bool  // it counts among those that fire often

	fired, missed, overlapped int64

	unreportedMisses [missReasons]misses // by their reason
}

// misses are times that passed without an item, and that no firing has reported yet.
type misses struct {
	from, to int64 // the first and the last one
	count    int64
	atLeast  int64 // 1: there may be more
}

// Why times pass without an item.
const (
	missedDown    = iota // no process fired them in time, or a change dropped them
	missedFull           // the queue took no item
	missedOverlap        // an earlier item lived
	missReasons
)

// missReason is why times that have come have not fired yet.
func (s *progress) missReason() int {
	if s.full {
		return missedFull
	}
	return missedDown
}

func (m *misses) add(from, to, count, atLeast int64) {
	if m.count == 0 || from < m.from {
		m.from = from
	}
	m.to, m.count, m.atLeast = max(m.to, to), m.count+count, max(m.atLeast, atLeast)
}

// hasUnreportedMisses reports whether there are misses to report.
func (s *progress) hasUnreportedMisses() bool { return s.unreportedMisses != [missReasons]misses{} }

// nextVisit is when there is something to do about the schedule, and its index row: 0: never. Misses
// are told once a minute.
func (s *progress) nextVisit() int64 {
	if !s.hasUnreportedMisses() {
		return s.due
	}
	tells := (s.lastReportMinute + 1) * int64(time.Minute)
	if s.due == 0 {
		return tells
	}
	return min(s.due, tells)
}

// done reports whether the schedule has no further time, and goes when it is due.
func (s *progress) done() bool { return s.next == 0 && s.due != 0 }

func (s *progress) fields() []*int64 {
	return []*int64{&s.created, &s.after, &s.next, &s.due, &s.last, &s.lastReportMinute, &s.fired, &s.missed, &s.overlapped}
}

const (
	rowVersion = 1

	noun = named.Noun("schedule") // in errors

	flagFull  = 1 << 0
	flagDense = 1 << 1
)

func (s *progress) pack() []byte {
	var flags int64
	if s.full {
		flags |= flagFull
	}
	if s.dense {
		flags |= flagDense
	}
	b := tuple.AppendInt(tuple.AppendInt(nil, rowVersion), flags)
	for _, field := range s.fields() {
		b = tuple.AppendInt(b, *field)
	}
	if s.hasUnreportedMisses() {
		for _, field := range s.unreportedFields() {
			b = tuple.AppendInt(b, *field)
		}
	}
	return b
}

func (s *progress) unreportedFields() (fields []*int64) {
	for i := range s.unreportedMisses {
		m := &s.unreportedMisses[i]
		fields = append(fields, &m.from, &m.to, &m.count, &m.atLeast)
	}
	return fields
}

func (s *progress) parse(b []byte) error {
	r := tuple.Read(b)
	version, flags := r.Int(), r.Int()
	if err := cmp.Or(r.Err(), noun.CheckVersion(version, rowVersion)); err != nil {
		return err
	}
	s.full, s.dense = flags&flagFull != 0, flags&flagDense != 0
	r.Ints(s.fields()...)
	if r.More() {
		r.Ints(s.unreportedFields()...)
	}
	return r.Err()
}
