package schedule

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/internal/calendar"
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

// plan is a definition as its schedule works with it.
type plan struct {
	Config
	times       *calendar.Calendar
	queue, name string
}

func newPlan(queue, name string, c Config, created int64) (*plan, error) {
	rule := calendar.Rule{Spec: c.Spec, Zone: c.Zone, Created: instant(created - created%int64(time.Second))}
	if c.Start != nil {
		rule.Start = *c.Start
	}
	if c.End != nil {
		rule.End = *c.End
	}
	times, err := calendar.New(rule)
	if err != nil {
		return nil, wrong(err)
	}
	return &plan{Config: c, times: times, queue: queue, name: name}, nil
}

// left is how many more times the schedule may fire after those that have.
func (p *plan) left(fired int64) int {
	if p.Count == 0 {
		return math.MaxInt
	}
	return int(max(0, p.Count-fired))
}

// instant turns a schedule time into the time of day that it stands for.
func instant(at int64) time.Time { return time.Unix(0, at).UTC() }

// dueAt is when a time fires: later by its jitter, and before the next time in any case, so
// that times fire in their order.
func (p *plan) dueAt(t time.Time) time.Time {
	if p.Jitter == 0 {
		return t
	}
	most := int64(p.Jitter)
	if next, ok := p.times.Next(t); ok {
		most = min(most, int64(next.Sub(t)))
	}
	return t.Add(time.Duration(jitterOf(p.queue, p.name, t.UnixNano(), most)))
}

// dense reports whether the schedule fires twice within a minute soon.
func (p *plan) dense(after time.Time) bool {
	times := p.times.Preview(after, denseTimes)
	for i := 1; i < len(times); i++ {
		if times[i].Sub(times[i-1]) < denseGap {
			return true
		}
	}
	return false
}

// jitterOf is the part of a time that a schedule is late on purpose, the same for all
// processes.
func jitterOf(queue, name string, at, most int64) int64 {
	return int64(inside.Fraction(fmt.Appendf(nil, "%s %s %d", queue, name, at)) * float64(most))
}
