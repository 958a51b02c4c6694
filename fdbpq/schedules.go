package fdbpq

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// A schedule pushes its item to its own queue at each time of a calendar. What it is lies in
// one row, how far it is in another one, which each firing writes; its only index row stands at
// the schedule time at which there is something to do.

// ScheduleConfig is what an administrator sets of a schedule, but for the item.
type ScheduleConfig struct {
	Spec    string     `json:"spec"`
	Zone    string     `json:"zone"`            // of the fields of the spec
	Start   *time.Time `json:"start,omitempty"` // the first and the last time that may fire; nil: no bound
	End     *time.Time `json:"end,omitempty"`
	Count   int64      `json:"count"`    // how many times it fires in all; 0: no bound
	Overlap Overlap    `json:"overlap"`  // what it does while an earlier item of it lives
	CatchUp Duration   `json:"catch_up"` // how late it may fire
	Missed  Missed     `json:"missed"`   // which of several times that are due fire
	Jitter  Duration   `json:"jitter"`   // it fires later by a part of it
	Paused  bool       `json:"paused"`
}

// Overlap says what a schedule does while an earlier item of it lives.
type Overlap string

const (
	OverlapSkip    Overlap = "skip"    // nothing
	OverlapOne     Overlap = "one"     // it pushes unless one waits that was never leased
	OverlapReplace Overlap = "replace" // the item gets the new content, unless it is leased
	OverlapAllow   Overlap = "allow"   // it pushes
)

// Missed says which of several times that are due fire.
type Missed string

const (
	MissedOne Missed = "one" // the last
	MissedAll Missed = "all" // each
)

// ScheduleItem is what a schedule pushes.
type ScheduleItem struct {
	Headers, Payload []byte

	Priority    int64
	HasPriority bool
	Key         string
	Weight      int64
	TTL         time.Duration
}

// Schedule is a schedule as it stands.
type Schedule struct {
	Name   string
	Config ScheduleConfig
	Item   ScheduleItem

	Next, Due time.Time // its next time, and when it fires with its jitter; zero: none
	Last      time.Time // the last time that fired; zero: none
	Full      bool      // its time has come, and the queue takes no items

	Fired, Missed, Overlapped int64

	Dropped int64 // of Missed, those that the change that answers has dropped

	done bool
}

// Done reports whether it has no further time.
func (s *Schedule) Done() bool { return s.done }

// The bounds of schedules.
const (
	MaxScheduleName   = 64
	MaxScheduleItem   = 64 << 10  // bytes of headers and payload
	MaxSchedules      = 100_000   // of a queue
	MaxScheduleBytes  = 256 << 20 // of the items of a queue's schedules
	MaxDenseSchedules = 100       // of a queue, with less than a minute between two of their next ten times
	MaxScheduleJitter = time.Hour //
	MinCatchUp        = 10 * time.Second
	MaxCatchUp        = 8760 * time.Hour
	MaxSchedulesPage  = 100

	denseTimes = 10
	denseGap   = time.Minute

	// doneKept is how long a schedule without a further time is kept.
	doneKept = 24 * time.Hour
)

var (
	// ErrNoSchedule: the queue has no schedule of this name.
	ErrNoSchedule = errors.New("no such schedule")
	// ErrSchedules: the queue has as many schedules as it may have.
	ErrSchedules = errors.New("too many schedules")
)

var scheduleFields = []string{"spec", "zone", "item", "start", "end", "count", "overlap", "catch_up", "missed", "jitter", "paused"}

func defaultSchedule() ScheduleConfig {
	return ScheduleConfig{Zone: "UTC", Overlap: OverlapSkip, CatchUp: Duration(time.Hour), Missed: MissedOne}
}

// merge returns the definition with the fields of the JSON object replaced, but for the item.
// null drops a bound.
func (c ScheduleConfig) merge(object []byte) (ScheduleConfig, error) {
	if err := jsonfields.Check(object, scheduleFields, true); err != nil {
		return c, scheduleError(err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(object, &fields); err != nil {
		return c, scheduleError(err)
	}
	for name, value := range fields {
		if string(value) == "null" && name != "start" && name != "end" {
			return c, scheduleError(jsonfields.Null(name))
		}
	}
	// A value behind a pointer would be decoded in its place, where the schedule as it was has it, too.
	for name, bound := range map[string]**time.Time{"start": &c.Start, "end": &c.End} {
		if _, given := fields[name]; given {
			*bound = nil
		}
	}
	if err := jsonfields.Decode(object, &c); err != nil {
		return c, scheduleError(err)
	}
	return c, scheduleError(c.check())
}

// ScheduleError says what is wrong with a schedule.
type ScheduleError struct{ Text string }

func (e *ScheduleError) Error() string { return "schedule: " + e.Text }

// scheduleError has an error about the fields of an object say that they are of a schedule.
func scheduleError(err error) error {
	if err == nil {
		return nil
	}
	return &ScheduleError{err.Error()}
}

func (c *ScheduleConfig) check() error {
	switch {
	case c.Count < 0:
		return jsonfields.Errorf("count is %d: it cannot be negative", c.Count)
	case !slices.Contains([]Overlap{OverlapSkip, OverlapOne, OverlapReplace, OverlapAllow}, c.Overlap):
		return jsonfields.Errorf("overlap is %q: expected skip, one, replace or allow", c.Overlap)
	case c.Missed != MissedOne && c.Missed != MissedAll:
		return jsonfields.Errorf("missed is %q: expected one or all", c.Missed)
	case c.CatchUp < Duration(MinCatchUp) || c.CatchUp > Duration(MaxCatchUp):
		return jsonfields.Errorf("catch_up is %s: allowed are %s to %s", c.CatchUp, MinCatchUp, MaxCatchUp)
	case c.Jitter < 0 || c.Jitter > Duration(MaxScheduleJitter):
		return jsonfields.Errorf("jitter is %s: allowed are 0s to %s", c.Jitter, MaxScheduleJitter)
	}
	for i, bound := range []*time.Time{c.Start, c.End} {
		if bound != nil && bound.IsZero() { // which is no bound to a calendar
			return jsonfields.Errorf("%s is in the year 1: allowed are the years 1970 to 2199", []string{"start", "end"}[i])
		}
	}
	return nil
}

// check returns an error when the item is not one that could be pushed.
func (i *ScheduleItem) check() error {
	if size := len(i.Headers) + len(i.Payload); size > MaxScheduleItem {
		return scheduleError(fmt.Errorf("item: payload and headers have %d bytes, allowed are %d", size, MaxScheduleItem))
	}
	if i.TTL < 0 || i.TTL > MaxDelay {
		return scheduleError(fmt.Errorf("item: ttl is %s, allowed are up to %s", i.TTL, MaxDelay))
	}
	if err := CheckKey(i.Key); err != nil {
		return err
	}
	return CheckWeight(i.Key, i.Weight)
}

func (i *ScheduleItem) size() int64 { return int64(len(i.Headers) + len(i.Payload)) }

// CheckScheduleName returns an error when a schedule may not have the name.
func CheckScheduleName(name string) error {
	bad := strings.ContainsFunc(name, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-' && c != '_'
	})
	if bad || name == "" || len(name) > MaxScheduleName {
		return scheduleError(fmt.Errorf("name %.100q: expected 1 to %d of A-Z a-z 0-9 - _", name, MaxScheduleName))
	}
	return nil
}

// scheduler changes schedules of a queue.
type scheduler struct{ Queue }

// SetSchedule changes the fields of a schedule that the JSON object names, and its item unless
// that is nil. It makes the schedule and the queue if need be.
func (q Queue) SetSchedule(tx kv.Tx, name string, object []byte, item *ScheduleItem) (Schedule, error) {
	if err := CheckScheduleName(name); err != nil {
		return Schedule{}, err
	}
	qtx, err := q.administer(tx)
	if err == nil {
		err = qtx.orCreate()
	}
	if err == nil {
		err = qtx.keepBirth()
	}
	if err != nil {
		return Schedule{}, err
	}
	return scheduler{q}.change(tx, qtx.state, name, true, func(row *scheduleRow) (err error) {
		if item != nil {
			row.item = *item
		}
		row.config, err = row.config.merge(object)
		return err
	})
}

// PauseSchedule stops a schedule. Times that pass until it is resumed are no misses. The
// methods of one schedule return ErrNoSchedule if there is none.
func (q Queue) PauseSchedule(tx kv.Tx, name string) (Schedule, error) {
	return scheduler{q}.changeKnown(tx, name, func(row *scheduleRow) error {
		row.config.Paused = true
		return nil
	})
}

// ResumeSchedule ends a pause. With fromNow it begins anew with the first time after now, also
// with times that have fired, as a clock that was ahead may have had it do.
func (q Queue) ResumeSchedule(tx kv.Tx, name string, fromNow bool) (Schedule, error) {
	return scheduler{q}.changeKnown(tx, name, func(row *scheduleRow) error {
		row.config.Paused = false
		row.anew = fromNow
		return nil
	})
}

func (q scheduler) changeKnown(tx kv.Tx, name string, change func(*scheduleRow) error) (Schedule, error) {
	if err := CheckScheduleName(name); err != nil {
		return Schedule{}, err
	}
	s, err := q.readState(tx)
	if err == nil && s == nil {
		err = ErrNoQueue
	}
	if err != nil {
		return Schedule{}, err
	}
	return q.change(tx, s, name, false, change)
}

func (q scheduler) change(tx kv.Tx, s *queueState, name string, makes bool, change func(*scheduleRow) error) (Schedule, error) {
	h := scheduleHome{q.name, s.born}
	now, err := schedules{q.store}.now(tx.Snapshot())
	if err != nil {
		return Schedule{}, err
	}
	before, err := h.read(tx, name)
	if err != nil {
		return Schedule{}, err
	}
	after := &scheduleRow{config: defaultSchedule(), scheduleProgress: scheduleProgress{created: now, after: now}}
	if before != nil {
		copied := *before
		after = &copied
	} else if !makes {
		return Schedule{}, ErrNoSchedule
	}
	if err := change(after); err != nil {
		return Schedule{}, err
	}
	if err := after.item.check(); err != nil {
		return Schedule{}, err
	}
	p, err := newPlan(q.name, name, after.config, after.created)
	if err != nil {
		return Schedule{}, err
	}
	anew := before == nil || after.anew || after.config.timesDiffer(&before.config)
	switch {
	case after.anew:
		after.after = now
	case anew, before.config.Paused != after.config.Paused, before.next == 0:
		after.after = max(now, after.after)
	}
	after.plan(p, now)
	if anew && after.next == 0 && !after.config.Paused {
		return Schedule{}, scheduleError(p.noTime(after))
	}
	dropped, err := after.drop(q.name, name, before, anew, now)
	if err != nil {
		return Schedule{}, err
	}
	if anew {
		after.dense = p.dense(instant(after.after))
	}
	if err := h.count(tx, before, after); err != nil {
		return Schedule{}, err
	}
	if err := h.write(tx, name, before, after); err != nil {
		return Schedule{}, err
	}
	if err := (schedules{q.store}).planned(tx, after); err != nil {
		return Schedule{}, err
	}
	shown := after.schedule(name)
	shown.Dropped = dropped
	return shown, nil
}

// drop counts the times that have come, have not fired, and never will after a change: they are
// missed.
func (row *scheduleRow) drop(queue, name string, before *scheduleRow, anew bool, now int64) (dropped int64, err error) {
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

// timesDiffer reports whether another definition has other times.
func (c *ScheduleConfig) timesDiffer(before *ScheduleConfig) bool {
	same := func(a, b *time.Time) bool { return a == b || a != nil && b != nil && a.Equal(*b) }
	return c.Spec != before.Spec || c.Zone != before.Zone || !same(c.Start, before.Start)
}

// DeleteSchedule removes a schedule.
func (q Queue) DeleteSchedule(tx kv.Tx, name string) error {
	s, err := q.readState(tx)
	if err != nil {
		return err
	}
	if s == nil {
		return ErrNoQueue
	}
	h := scheduleHome{q.name, s.born}
	row, err := h.read(tx, name)
	if err != nil {
		return err
	}
	if row == nil {
		return ErrNoSchedule
	}
	return h.remove(tx, name, row)
}

// RunSchedule pushes the item of a schedule now, as a firing does. A repetition with the same
// message id pushes nothing. room says why the queue takes no new item of some bytes, nil: it does.
func (q Queue) RunSchedule(tx kv.Tx, name, msgID string, room func(bytes int) error) (Pushed, error) {
	row, err := scheduler{q}.read(tx, name)
	if err != nil {
		return Pushed{}, err
	}
	now, err := schedules{q.store}.now(tx.Snapshot())
	if err != nil {
		return Pushed{}, err
	}
	item := row.newItem(name, instant(now).Truncate(time.Millisecond))
	item.MsgID = msgID
	pushed, err := q.Full(room(len(item.Headers)+len(item.Payload))).Push(tx, item)
	if err != nil {
		return Pushed{}, err
	}
	return pushed[0], nil
}

// Schedule returns a schedule, and its next times.
func (q Queue) Schedule(r kv.Reader, name string, times int) (Schedule, []time.Time, error) {
	row, err := scheduler{q}.read(r, name)
	if err != nil {
		return Schedule{}, nil, err
	}
	p, err := newPlan(q.name, name, row.config, row.created)
	if err != nil {
		return Schedule{}, nil, err
	}
	if row.done() {
		return row.schedule(name), nil, nil
	}
	return row.schedule(name), p.times.Preview(instant(row.after), min(times, p.left(row.fired))), nil
}

// PreviewSchedule returns the next times that a schedule would have with the fields of a JSON
// object, and with an item unless that is nil. It refuses what [Queue.SetSchedule] refuses, but for limits.
func (q Queue) PreviewSchedule(r kv.Reader, name string, object []byte, item *ScheduleItem, times int) ([]time.Time, error) {
	if item != nil {
		if err := item.check(); err != nil {
			return nil, err
		}
	}
	now, err := schedules{q.store}.now(r)
	if err != nil {
		return nil, err
	}
	would := &scheduleRow{config: defaultSchedule(), scheduleProgress: scheduleProgress{created: now, after: now}}
	row, err := scheduler{q}.read(r, name)
	switch {
	case err == nil:
		would.config, would.created, would.fired = row.config, row.created, row.fired
	case err != ErrNoSchedule && err != ErrNoQueue:
		return nil, err
	}
	if would.config, err = would.config.merge(object); err != nil {
		return nil, err
	}
	p, err := newPlan(q.name, name, would.config, would.created)
	if err != nil {
		return nil, err
	}
	found := p.times.Preview(instant(now), min(times, p.left(would.fired)))
	if anew := row == nil || would.config.timesDiffer(&row.config); anew && len(found) == 0 && !would.config.Paused {
		return nil, scheduleError(p.noTime(would))
	}
	return found, nil
}

// Schedules returns a page of schedules behind a name, without what they push.
func (q Queue) Schedules(r kv.Reader, after string, limit int) ([]Schedule, error) {
	s, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoQueue
	}
	h := scheduleHome{q.name, s.born}
	prefix := h.prefix(layout.SpaceSchedule)
	begin, end := tuple.Range(prefix)
	if after != "" {
		begin = append(h.key(layout.SpaceSchedule, after), 0)
	}
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: limit})
	if err != nil {
		return nil, err
	}
	var page []Schedule
	for _, pair := range rows {
		name, _, err := tuple.ConsumeString(pair.Key[len(prefix):])
		if err != nil {
			return nil, fmt.Errorf("damaged schedule: %w", err)
		}
		row, err := h.read(r, name)
		if err != nil {
			return nil, err
		}
		if row != nil {
			page = append(page, row.schedule(name))
		}
	}
	return page, nil
}

// ScheduleSummary is what the schedules of a queue are together.
type ScheduleSummary struct {
	Count int64
	Next  time.Time // the first time that one of them has; zero: none has, or there are more than are looked at
}

// mostSummed is how many schedules a summary looks at.
const mostSummed = 64

// ScheduleSummary sums up the schedules of the queue.
func (q Queue) ScheduleSummary(r kv.Reader) (sum ScheduleSummary, err error) {
	s, err := q.readState(r)
	if err != nil || s == nil || s.born == 0 {
		return sum, err
	}
	h := scheduleHome{q.name, s.born}
	n, err := h.counts(r)
	if sum.Count = n.schedules; err != nil || n.schedules == 0 || n.schedules > mostSummed {
		return sum, err
	}
	begin, end := tuple.Range(h.prefix(layout.SpaceProgress))
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: mostSummed})
	if err != nil {
		return sum, err
	}
	for _, pair := range rows {
		var p scheduleProgress
		if err := p.parse(pair.Value); err != nil {
			return sum, fmt.Errorf("damaged schedule: %w", err)
		}
		if at := time.Unix(0, p.next).UTC(); p.next != 0 && (sum.Next.IsZero() || at.Before(sum.Next)) {
			sum.Next = at
		}
	}
	return sum, nil
}

func (q scheduler) read(r kv.Reader, name string) (*scheduleRow, error) {
	if err := CheckScheduleName(name); err != nil {
		return nil, err
	}
	s, err := q.readState(r)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return nil, ErrNoQueue
	}
	row, err := scheduleHome{q.name, s.born}.read(r, name)
	if err == nil && row == nil {
		err = ErrNoSchedule
	}
	return row, err
}
