package schedule

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Each item of a schedule says whose it is, in lines of its headers.
const (
	nameHeader = "PQ-Schedule: "
	atHeader   = "PQ-Scheduled-At: "
)

// owner is whose the unique values of items of schedules are.
const owner = "schedule"

// record is all that is known of a schedule.
type record struct {
	config Config
	item   Item
	progress
	restart bool // it is to begin with the first time after now
}

// definition is the part of a schedule's row that is JSON.
type definition struct {
	Config
	Priority *int64         `json:"priority,omitempty"`
	Key      string         `json:"key,omitempty"`
	Weight   int64          `json:"weight,omitempty"`
	Cost     int64          `json:"cost,omitempty"`
	TTL      fdbpq.Duration `json:"ttl,omitempty"`
}

// packDefinition packs what a schedule is. Headers and payload stand behind it as they are:
// zero bytes that a tuple escapes could make them too long for a value.
func (row *record) packDefinition() ([]byte, error) {
	d := definition{Config: row.config, Key: row.item.Key, Weight: row.item.Weight, Cost: row.item.Cost, TTL: fdbpq.Duration(row.item.TTL)}
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
	row.item = Item{Headers: b[:headers:headers], Payload: b[headers:], Key: d.Key, Weight: d.Weight, Cost: d.Cost, TTL: time.Duration(d.TTL)}
	if d.Priority != nil {
		row.item.Priority, row.item.HasPriority = *d.Priority, true
	}
	return nil
}

// schedule is the row as it is shown.
func (row *record) schedule(name string) Schedule {
	s := Schedule{
		Name: name, Config: row.config, Item: row.item, Full: row.full,
		Fired: row.fired, Missed: row.missed, Overlapped: row.overlapped, done: row.done(),
	}
	if row.next != 0 {
		s.Next, s.Due = instant(row.next), instant(row.due)
	}
	if row.last != 0 {
		s.Last = instant(row.last)
	}
	return s
}

// plan sets the next time of a schedule, and when there is something to do about it.
func (row *record) plan(p *plan, now int64) {
	goes := now + int64(doneKept)
	if row.done() {
		goes = row.due
	}
	was, full := row.next, row.full
	row.next, row.due, row.full = 0, 0, false
	next, ok := p.times.Next(instant(row.after))
	if !ok || p.left(row.fired) == 0 {
		row.due = goes
		return
	}
	if p.Paused {
		return
	}
	row.next, row.due = next.UnixNano(), p.dueAt(next).UnixNano()
	if full && row.next == was { // it tries again at once
		row.full, row.due = true, max(row.due, now)
	}
}

// drop counts the times that have come, have not fired, and never will after a change: they are
// missed.
func (row *record) drop(queue, name string, before *record, anew bool, now int64) (dropped int64, err error) {
	if before == nil || before.config.Paused || before.next == 0 || before.next > now {
		return 0, nil
	}
	from, end := before.after, row.config.End
	switch {
	case anew, row.config.Paused, row.next == 0:
	case end != nil && end.UnixNano() < now:
		from = max(from, end.UnixNano())
	default:
		return 0, nil
	}
	p, err := newPlan(queue, name, before.config, before.created)
	if err != nil {
		return 0, err
	}
	return row.miss(p, before.missReason(), instant(from+1), instant(now)), nil
}

// miss counts times that pass without an item.
func (row *record) miss(p *plan, reason int, from, to time.Time) int64 {
	n := int64(p.times.Count(from, to, maxMissedCount))
	if n == 0 {
		return 0
	}
	first, _ := p.times.Next(from.Add(-1))
	last, _ := p.times.Last(to.Add(1))
	atLeast := int64(0)
	if n == maxMissedCount {
		atLeast = 1
	}
	row.unreportedMisses[reason].add(first.UnixNano(), last.UnixNano(), n, atLeast)
	row.missed += n
	return n
}

// maxMissedCount bounds how many misses are counted at a time.
const maxMissedCount = 10_000

// newItem is what the schedule pushes for a time.
func (row *record) newItem(name string, at time.Time) fdbpq.NewItem {
	i := &row.item
	headers := make([]byte, 0, len(i.Headers)+len(nameHeader)+len(name)+len(atHeader)+len(time.RFC3339Nano)+4)
	headers = append(append(append(headers, i.Headers...), nameHeader...), name...)
	headers = append(append(headers, "\r\n"...), atHeader...)
	headers = append(at.AppendFormat(headers, time.RFC3339Nano), "\r\n"...)
	item := fdbpq.NewItem{
		Headers: headers, Payload: i.Payload, Priority: i.Priority, HasPriority: i.HasPriority,
		Key: i.Key, Weight: i.Weight, Cost: i.Cost, TTL: i.TTL, Owner: owner,
	}
	if row.config.Overlap == OverlapAllow {
		return item
	}
	item.Unique = name
	switch row.config.Overlap {
	case OverlapOne:
		item.UniqueUntilLeased = true
	case OverlapReplace:
		item.OnConflict = fdbpq.ConflictReplace
	}
	return item
}

// noTime says why a schedule has no further time.
func (row *record) noTime(p *plan) error {
	if p.left(row.fired) == 0 {
		return jsonfields.Errorf("count is %d, and it has fired %d times: expected a higher count, or 0", p.Count, row.fired)
	}
	bounds := p.Config
	bounds.End = nil
	if p.End != nil && row.hasTime(p, bounds) {
		return jsonfields.Errorf("end is %s: the spec has no time up to then", p.End.UTC().Format(time.RFC3339))
	}
	bounds.Start, bounds.End = nil, p.End
	if p.Start != nil && row.hasTime(p, bounds) {
		return jsonfields.Errorf("start is %s: the spec has no time from then on", p.Start.UTC().Format(time.RFC3339))
	}
	return jsonfields.Errorf("spec %q has no time within eight years from now", p.Spec)
}

// hasTime reports whether the schedule would have a further time with another definition.
func (row *record) hasTime(p *plan, c Config) bool {
	other, err := newPlan(p.queue, p.name, c, row.created)
	if err != nil {
		return false
	}
	_, has := other.times.Next(instant(row.after))
	return has
}

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
