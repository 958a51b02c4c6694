package schedule

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
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

// record is all that is known of a schedule.
type record struct {
	config Config
	item   Item
	progress
	restart bool // it is to begin with the first time after now
}

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

// definition is the part of a schedule's row that is JSON.
type definition struct {
	Config
	Priority *int64         `json:"priority,omitempty"`
	Key      string         `json:"key,omitempty"`
	Weight   int64          `json:"weight,omitempty"`
	TTL      fdbpq.Duration `json:"ttl,omitempty"`
}

// packDefinition packs what a schedule is. Headers and payload stand behind it as they are:
// zero bytes that a tuple escapes could make them too long for a value.
func (row *record) packDefinition() ([]byte, error) {
	d := definition{Config: row.config, Key: row.item.Key, Weight: row.item.Weight, TTL: fdbpq.Duration(row.item.TTL)}
	if row.item.HasPriority {
		d.Priority = &row.item.Priority
	}
	b, err := noun.Pack(rowVersion, d)
	if err != nil {
		return nil, err
	}
	b = tuple.AppendInt(b, int64(len(row.item.Headers)))
	return append(append(b, row.item.Headers...), row.item.Payload...), nil
}

func (row *record) parseDefinition(b []byte) error {
	var d definition
	rest, err := noun.Parse(b, rowVersion, &d)
	if err != nil {
		return err
	}
	headers, b, err := tuple.ConsumeInt(rest)
	if err != nil {
		return err
	}
	if headers < 0 || headers > int64(len(b)) {
		return fmt.Errorf("%d bytes of headers in %d bytes", headers, len(b))
	}
	row.config = d.Config
	row.item = Item{Headers: b[:headers:headers], Payload: b[headers:], Key: d.Key, Weight: d.Weight, TTL: time.Duration(d.TTL)}
	if d.Priority != nil {
		row.item.Priority, row.item.HasPriority = *d.Priority, true
	}
	return nil
}

// done reports whether the schedule has no further time, and goes when it is due.
func (s *progress) done() bool { return s.next == 0 && s.due != 0 }
