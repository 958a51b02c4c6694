package fdbpq

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// scheduleHome is where the rows of a queue's schedules are. A purge leaves them there; they
// go with the queue.
type scheduleHome struct {
	queue string
	born  int64
}

func (h scheduleHome) prefix(space string) []byte {
	return layout.GenerationPrefix(space, h.queue, h.born)
}

func (h scheduleHome) key(space, name string) []byte {
	return tuple.AppendString(h.prefix(space), name)
}

// scheduleProgress is how far a schedule is. Its times are schedule times.
type scheduleProgress struct {
	created int64
	after   int64 // it is done with all times up to this one
	next    int64 // its first time behind that; 0: there is none, or it is paused
	due     int64 // when it fires, or goes; 0: never
	last    int64 // the last time that fired; 0: none
	told    int64 // minute in which its last events were
	full    bool  // the queue took no item
	dense   bool  // it counts among those that fire often

	fired, missed, overlapped int64

	untold [missReasons]misses // by their reason
}

// misses are times that passed without an item, and that no event has told yet.
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
func (s *scheduleProgress) missReason() int {
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

// telling reports whether there are misses to tell.
func (s *scheduleProgress) telling() bool { return s.untold != [missReasons]misses{} }

// looked is when there is something to do about the schedule, and its index row: 0: never. Misses
// are told once a minute.
func (s *scheduleProgress) looked() int64 {
	if !s.telling() {
		return s.due
	}
	tells := (s.told + 1) * int64(time.Minute)
	if s.due == 0 {
		return tells
	}
	return min(s.due, tells)
}

// scheduleRow is all that is known of a schedule.
type scheduleRow struct {
	config ScheduleConfig
	item   ScheduleItem
	scheduleProgress
	anew bool // it is to begin with the first time after now
}

func (s *scheduleProgress) fields() []*int64 {
	return []*int64{&s.created, &s.after, &s.next, &s.due, &s.last, &s.told, &s.fired, &s.missed, &s.overlapped}
}

const (
	scheduleVersion = 1

	scheduleFull  = 1 << 0
	scheduleDense = 1 << 1
)

func (s *scheduleProgress) pack() []byte {
	var flags int64
	if s.full {
		flags |= scheduleFull
	}
	if s.dense {
		flags |= scheduleDense
	}
	b := tuple.AppendInt(tuple.AppendInt(nil, scheduleVersion), flags)
	for _, field := range s.fields() {
		b = tuple.AppendInt(b, *field)
	}
	if s.telling() {
		for _, field := range s.untoldFields() {
			b = tuple.AppendInt(b, *field)
		}
	}
	return b
}

func (s *scheduleProgress) untoldFields() (fields []*int64) {
	for i := range s.untold {
		m := &s.untold[i]
		fields = append(fields, &m.from, &m.to, &m.count, &m.atLeast)
	}
	return fields
}

func (s *scheduleProgress) parse(b []byte) error {
	r := tuple.Read(b)
	version, flags := r.Int(), r.Int()
	if r.Err() == nil && version != scheduleVersion {
		return fmt.Errorf("schedule has version %d: this program reads %d", version, scheduleVersion)
	}
	s.full, s.dense = flags&scheduleFull != 0, flags&scheduleDense != 0
	r.Ints(s.fields()...)
	if r.More() {
		r.Ints(s.untoldFields()...)
	}
	return r.Err()
}

// definition is the part of a schedule's row that is JSON.
type definition struct {
	ScheduleConfig
	Priority *int64   `json:"priority,omitempty"`
	Key      string   `json:"key,omitempty"`
	Weight   int64    `json:"weight,omitempty"`
	TTL      Duration `json:"ttl,omitempty"`
}

// packDefinition packs what a schedule is. Headers and payload stand behind it as they are:
// zero bytes that a tuple escapes could make them too long for a value.
func (row *scheduleRow) packDefinition() ([]byte, error) {
	d := definition{ScheduleConfig: row.config, Key: row.item.Key, Weight: row.item.Weight, TTL: Duration(row.item.TTL)}
	if row.item.HasPriority {
		d.Priority = &row.item.Priority
	}
	text, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("schedule: %w", err)
	}
	b := tuple.AppendBytes(tuple.AppendInt(nil, scheduleVersion), text)
	b = tuple.AppendInt(b, int64(len(row.item.Headers)))
	return append(append(b, row.item.Headers...), row.item.Payload...), nil
}

func (row *scheduleRow) parseDefinition(b []byte) error {
	r := tuple.Read(b)
	version, text, headers := r.Int(), r.Bytes(), r.Int()
	if err := r.Err(); err != nil {
		return err
	}
	if version != scheduleVersion {
		return fmt.Errorf("schedule has version %d: this program reads %d", version, scheduleVersion)
	}
	var d definition
	if err := json.Unmarshal(text, &d); err != nil {
		return err
	}
	b = r.Rest()
	if headers < 0 || headers > int64(len(b)) {
		return fmt.Errorf("%d bytes of headers in %d bytes", headers, len(b))
	}
	row.config = d.ScheduleConfig
	row.item = ScheduleItem{Headers: b[:headers:headers], Payload: b[headers:], Key: d.Key, Weight: d.Weight, TTL: time.Duration(d.TTL)}
	if d.Priority != nil {
		row.item.Priority, row.item.HasPriority = *d.Priority, true
	}
	return nil
}

// read returns a schedule, nil if there is none.
func (h scheduleHome) read(r kv.Reader, name string) (*scheduleRow, error) {
	rows, err := r.GetAll([][]byte{h.key(layout.SpaceSchedule, name), h.key(layout.SpaceProgress, name)})
	if err != nil || rows[0] == nil && rows[1] == nil {
		return nil, err
	}
	row := new(scheduleRow)
	err = row.parseDefinition(rows[0])
	if err == nil {
		err = row.parse(rows[1])
	}
	if err != nil {
		return nil, fmt.Errorf("damaged schedule %q: %w", name, err)
	}
	return row, nil
}

// write writes a schedule, and moves its index row. before is the schedule as the store has it,
// nil: there is none.
func (h scheduleHome) write(tx kv.Tx, name string, before, after *scheduleRow) error {
	value, err := after.packDefinition()
	if err != nil {
		return err
	}
	tx.Set(h.key(layout.SpaceSchedule, name), value)
	h.advance(tx, name, before, after)
	return nil
}

// advance writes how far a schedule is, and moves its index row.
func (h scheduleHome) advance(tx kv.Tx, name string, before, after *scheduleRow) {
	tx.Set(h.key(layout.SpaceProgress, name), after.pack())
	was, is := int64(0), after.looked()
	if before != nil {
		was = before.looked()
	}
	if was == is {
		return
	}
	if was != 0 {
		tx.Clear(dueRow(was, h, name))
	}
	if is != 0 {
		tx.Set(dueRow(is, h, name), nil)
	}
}

// remove clears a schedule.
func (h scheduleHome) remove(tx kv.Tx, name string, row *scheduleRow) error {
	if err := h.count(tx, row, nil); err != nil {
		return err
	}
	tx.Clear(h.key(layout.SpaceSchedule, name))
	tx.Clear(h.key(layout.SpaceProgress, name))
	if at := row.looked(); at != 0 {
		tx.Clear(dueRow(at, h, name))
	}
	return nil
}

// scheduleCounts are what the limits of a queue's schedules are about.
type scheduleCounts struct{ schedules, bytes, dense int64 }

func (n *scheduleCounts) add(row *scheduleRow, times int64) {
	if row == nil {
		return
	}
	n.schedules += times
	n.bytes += times * row.item.size()
	if row.dense {
		n.dense += times
	}
}

func (h scheduleHome) counts(r kv.Reader) (n scheduleCounts, err error) {
	value, err := r.Get(h.prefix(layout.SpaceSchedules))
	if err != nil || value == nil {
		return n, err
	}
	return parseScheduleCounts(value)
}

// ScheduledBytes returns how many bytes schedules have, of the queues behind a name up to the last.
func (s *Store) ScheduledBytes(r kv.Reader, after, last string) (n int64, err error) {
	_, begin := tuple.Range(layout.QueueRow(layout.SpaceSchedules, after))
	_, end := tuple.Range(layout.QueueRow(layout.SpaceSchedules, last))
	for more := true; more; {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: queuesPerRead})
		if err != nil {
			return 0, err
		}
		more = len(rows) == queuesPerRead
		for _, pair := range rows {
			begin = append(slices.Clip(pair.Key), 0)
			k := tuple.Read(pair.Key[len(layout.Row(layout.SpaceSchedules)):])
			queue, born := k.Text(), k.Int()
			if k.Err() != nil {
				return 0, fmt.Errorf("damaged counts of schedules: %w", k.Err())
			}
			state, err := s.Queue(queue).readState(r)
			if err != nil {
				return 0, err
			}
			if state == nil || state.born != born {
				continue // of a queue that was deleted
			}
			counted, err := parseScheduleCounts(pair.Value)
			if err != nil {
				return 0, err
			}
			n += counted.bytes + counted.schedules*DefinitionBytes
		}
	}
	return n, nil
}

func parseScheduleCounts(value []byte) (n scheduleCounts, err error) {
	r := tuple.Read(value)
	if r.Ints(&n.schedules, &n.bytes, &n.dense); r.Err() != nil {
		return n, fmt.Errorf("damaged counts of schedules: %w", r.Err())
	}
	return n, nil
}

// count counts a schedule as it is from now on, nil: it is gone. It refuses one too many.
func (h scheduleHome) count(tx kv.Tx, before, after *scheduleRow) error {
	n, err := h.counts(tx)
	if err != nil {
		return err
	}
	was := n
	n.add(before, -1)
	n.add(after, 1)
	switch {
	case n == was:
		return nil
	case n.schedules > was.schedules && n.schedules > MaxSchedules:
		return fmt.Errorf("%w: the queue has %d, allowed are %d", ErrSchedules, was.schedules, MaxSchedules)
	case n.bytes > was.bytes && n.bytes > MaxScheduleBytes:
		return fmt.Errorf("%w: their items have %d bytes, allowed are %d", ErrSchedules, was.bytes, MaxScheduleBytes)
	case n.dense > was.dense && n.dense > MaxDenseSchedules:
		return fmt.Errorf("%w: %d of the queue fire twice within %s, allowed are %d", ErrSchedules, was.dense, denseGap, MaxDenseSchedules)
	}
	value := []byte(nil)
	for _, field := range []int64{n.schedules, n.bytes, n.dense} {
		value = tuple.AppendInt(value, field)
	}
	if tx.Set(h.prefix(layout.SpaceSchedules), value); n == (scheduleCounts{}) {
		tx.Clear(h.prefix(layout.SpaceSchedules))
	}
	return nil
}

// scheduleLanes is how many parts the index has.
const scheduleLanes = 16

func dueRow(due int64, h scheduleHome, name string) []byte {
	key := tuple.AppendInt(lanePrefix(laneOf(h.queue)), due)
	return tuple.AppendString(layout.AppendHome(key, h.queue, h.born), name)
}

func lanePrefix(lane int64) []byte { return tuple.AppendInt(layout.Row(layout.SpaceDue), lane) }

func laneOf(queue string) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(queue))
	return int64(hash.Sum32() % scheduleLanes)
}

// dueEntry is a parsed index row.
type dueEntry struct {
	key  []byte
	due  int64
	home scheduleHome
	name string
}

// at returns the index row of the schedule for another time.
func (e dueEntry) at(due int64) dueEntry {
	e.due, e.key = due, dueRow(due, e.home, e.name)
	return e
}

// behindQueue is the key behind all rows of the queue at that time.
func (e dueEntry) behindQueue() []byte {
	key := tuple.AppendInt(lanePrefix(laneOf(e.home.queue)), e.due)
	_, end := tuple.Range(layout.AppendHome(key, e.home.queue, e.home.born))
	return end
}

func parseDue(key []byte) (e dueEntry, err error) {
	r := tuple.Read(key[len(layout.Row(layout.SpaceDue)):])
	r.Int() // the lane
	e = dueEntry{key: key, due: r.Int(), home: scheduleHome{r.Text(), r.Int()}, name: r.Text()}
	if r.Err() != nil {
		return e, fmt.Errorf("damaged index of schedules: %w", r.Err())
	}
	return e, nil
}

// plan sets the next time of a schedule, and when there is something to do about it.
func (row *scheduleRow) plan(p *plan, now int64) {
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

// done reports whether the schedule has no further time, and goes when it is due.
func (s *scheduleProgress) done() bool { return s.next == 0 && s.due != 0 }

// schedule is the row as it is shown.
func (row *scheduleRow) schedule(name string) Schedule {
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

// Each item of a schedule says whose it is, in lines of its headers.
const (
	scheduleHeader    = "PQ-Schedule: "
	scheduledAtHeader = "PQ-Scheduled-At: "
)

// newItem is what the schedule pushes for a time.
func (row *scheduleRow) newItem(name string, at time.Time) NewItem {
	i := &row.item
	headers := make([]byte, 0, len(i.Headers)+len(scheduleHeader)+len(name)+len(scheduledAtHeader)+len(time.RFC3339Nano)+4)
	headers = append(append(append(headers, i.Headers...), scheduleHeader...), name...)
	headers = append(append(headers, "\r\n"...), scheduledAtHeader...)
	headers = append(at.AppendFormat(headers, time.RFC3339Nano), "\r\n"...)
	item := NewItem{
		Headers: headers, Payload: i.Payload, Priority: i.Priority, HasPriority: i.HasPriority,
		Key: i.Key, Weight: i.Weight, TTL: i.TTL, Owner: "schedule",
	}
	if row.config.Overlap == OverlapAllow {
		return item
	}
	item.Unique = name
	switch row.config.Overlap {
	case OverlapOne:
		item.UniqueUntilLeased = true
	case OverlapReplace:
		item.OnConflict = ConflictReplace
	}
	return item
}

// jitterOf is the part of a time that a schedule is late on purpose, the same for all
// processes.
func jitterOf(queue, name string, at, most int64) int64 {
	return int64(inside.Fraction(fmt.Appendf(nil, "%s %s %d", queue, name, at)) * float64(most))
}
