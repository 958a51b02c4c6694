package schedule

import (
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

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

// Set changes the fields of a schedule that the JSON object names, and its item unless
// that is nil. It makes the schedule and the queue if need be.
func (s *Schedules) Set(tx kv.Tx, q fdbpq.Queue, name string, object []byte, item *Item) (Schedule, error) {
	if err := CheckName(name); err != nil {
		return Schedule{}, err
	}
	born, err := q.Make(tx)
	if err != nil {
		return Schedule{}, err
	}
	return s.change(tx, newHome(q.Name(), born), name, true, func(row *record) (err error) {
		if item != nil {
			row.item = *item
		}
		row.config, err = row.config.merge(object)
		return err
	})
}

// Pause stops a schedule. Times that pass until it is resumed are no misses. The
// methods of one schedule return ErrNone if there is none.
func (s *Schedules) Pause(tx kv.Tx, q fdbpq.Queue, name string) (Schedule, error) {
	return s.changeKnown(tx, q, name, func(row *record) error {
		row.config.Paused = true
		return nil
	})
}

// Resume ends a pause. With fromNow it begins anew with the first time after now, also
// with times that have fired, as a clock that was ahead may have had it do.
func (s *Schedules) Resume(tx kv.Tx, q fdbpq.Queue, name string, fromNow bool) (Schedule, error) {
	return s.changeKnown(tx, q, name, func(row *record) error {
		row.config.Paused = false
		row.restart = fromNow
		return nil
	})
}

func (s *Schedules) changeKnown(tx kv.Tx, q fdbpq.Queue, name string, change func(*record) error) (Schedule, error) {
	if err := CheckName(name); err != nil {
		return Schedule{}, err
	}
	h, err := homeOf(tx, q)
	if err != nil {
		return Schedule{}, err
	}
	return s.change(tx, h, name, false, change)
}

func (s *Schedules) change(tx kv.Tx, h home, name string, makes bool, change func(*record) error) (Schedule, error) {
	now, err := s.now(tx.Snapshot())
	if err != nil {
		return Schedule{}, err
	}
	before, err := h.read(tx, name)
	if err != nil {
		return Schedule{}, err
	}
	after := &record{config: defaultConfig(), progress: progress{created: now, after: now}}
	if before != nil {
		copied := *before
		after = &copied
	} else if !makes {
		return Schedule{}, ErrNone
	}
	if err := change(after); err != nil {
		return Schedule{}, err
	}
	if err := after.item.check(); err != nil {
		return Schedule{}, err
	}
	p, err := newPlan(h.Queue, name, after.config, after.created)
	if err != nil {
		return Schedule{}, err
	}
	anew := before == nil || after.restart || after.config.timesDiffer(&before.config)
	switch {
	case after.restart:
		after.after = now
	case anew, before.config.Paused != after.config.Paused, before.next == 0:
		after.after = max(now, after.after)
	}
	after.plan(p, now)
	if anew && after.next == 0 && !after.config.Paused {
		return Schedule{}, wrong(p.noTime(after))
	}
	dropped, err := after.drop(h.Queue, name, before, anew, now)
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
	if err := s.planned(tx, after); err != nil {
		return Schedule{}, err
	}
	shown := after.schedule(name)
	shown.Dropped = dropped
	return shown, nil
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

// Delete removes a schedule.
func (s *Schedules) Delete(tx kv.Tx, q fdbpq.Queue, name string) error {
	h, err := homeOf(tx, q)
	if err != nil {
		return err
	}
	row, err := h.read(tx, name)
	if err != nil {
		return err
	}
	if row == nil {
		return ErrNone
	}
	return h.remove(tx, name, row)
}

// Push pushes the item of a schedule now, as a firing does. A repetition with the same
// message id pushes nothing. room returns the reason why the queue takes no new item of
// some bytes, or nil.
func (s *Schedules) Push(tx kv.Tx, q fdbpq.Queue, name, msgID string, room func(bytes int) error) (fdbpq.Pushed, error) {
	row, err := read(tx, q, name)
	if err != nil {
		return fdbpq.Pushed{}, err
	}
	now, err := s.now(tx.Snapshot())
	if err != nil {
		return fdbpq.Pushed{}, err
	}
	item := row.newItem(name, instant(now).Truncate(time.Millisecond))
	item.MsgID = msgID
	pushed, err := q.Full(room(len(item.Headers)+len(item.Payload))).Push(tx, item)
	if err != nil {
		return fdbpq.Pushed{}, err
	}
	return pushed[0], nil
}

// Get returns a schedule, and its next times.
func (s *Schedules) Get(r kv.Reader, q fdbpq.Queue, name string, times int) (Schedule, []time.Time, error) {
	row, err := read(r, q, name)
	if err != nil {
		return Schedule{}, nil, err
	}
	p, err := newPlan(q.Name(), name, row.config, row.created)
	if err != nil {
		return Schedule{}, nil, err
	}
	if row.done() {
		return row.schedule(name), nil, nil
	}
	return row.schedule(name), p.times.Preview(instant(row.after), min(times, p.left(row.fired))), nil
}

// Preview returns the next times that a schedule would have with the fields of a JSON
// object, and with an item unless that is nil. It refuses what Set refuses, but for limits.
func (s *Schedules) Preview(r kv.Reader, q fdbpq.Queue, name string, object []byte, item *Item, times int) ([]time.Time, error) {
	if item != nil {
		if err := item.check(); err != nil {
			return nil, err
		}
	}
	now, err := s.now(r)
	if err != nil {
		return nil, err
	}
	would := &record{config: defaultConfig(), progress: progress{created: now, after: now}}
	row, err := read(r, q, name)
	switch {
	case err == nil:
		would.config, would.created, would.fired = row.config, row.created, row.fired
	case err != ErrNone && err != fdbpq.ErrNoQueue:
		return nil, err
	}
	if would.config, err = would.config.merge(object); err != nil {
		return nil, err
	}
	p, err := newPlan(q.Name(), name, would.config, would.created)
	if err != nil {
		return nil, err
	}
	found := p.times.Preview(instant(now), min(times, p.left(would.fired)))
	if anew := row == nil || would.config.timesDiffer(&row.config); anew && len(found) == 0 && !would.config.Paused {
		return nil, wrong(p.noTime(would))
	}
	return found, nil
}

// List returns a page of schedules behind a name, without what they push.
func (s *Schedules) List(r kv.Reader, q fdbpq.Queue, after string, limit int) ([]Schedule, error) {
	h, err := homeOf(r, q)
	if err != nil {
		return nil, err
	}
	ids, err := h.Page(r, layout.SpaceSchedule, after, limit)
	if err != nil {
		return nil, err
	}
	var page []Schedule
	for _, id := range ids {
		row, err := h.read(r, id.Name)
		if err != nil {
			return nil, err
		}
		if row != nil {
			page = append(page, row.schedule(id.Name))
		}
	}
	return page, nil
}

// Summary is what the schedules of a queue are together.
type Summary struct {
	Count int64
	Next  time.Time // the first time that one of them has; zero: none has, or there are more than are looked at
}

// mostSummed is how many schedules a summary looks at.
const mostSummed = 64

// Summary sums up the schedules of a queue. There are none where there is no such queue.
func (s *Schedules) Summary(r kv.Reader, q fdbpq.Queue) (sum Summary, err error) {
	h, err := homeOf(r, q)
	if err == fdbpq.ErrNoQueue || err == nil && h.Born == 0 {
		return sum, nil
	}
	if err != nil {
		return sum, err
	}
	n, err := h.counts(r)
	if sum.Count = n.schedules; err != nil || n.schedules == 0 || n.schedules > mostSummed {
		return sum, err
	}
	begin, end := tuple.Range(h.Prefix(layout.SpaceProgress))
	rows, err := r.Range(begin, end, kv.RangeOptions{Limit: mostSummed})
	if err != nil {
		return sum, err
	}
	for _, pair := range rows {
		var p progress
		if err := p.parse(pair.Value); err != nil {
			return sum, fmt.Errorf("damaged schedule: %w", err)
		}
		if at := time.Unix(0, p.next).UTC(); p.next != 0 && (sum.Next.IsZero() || at.Before(sum.Next)) {
			sum.Next = at
		}
	}
	return sum, nil
}

// homeOf is where the schedules of a queue are. ErrNoQueue: there is no such queue.
func homeOf(r kv.Reader, q fdbpq.Queue) (home, error) {
	born, err := q.Born(r)
	return newHome(q.Name(), born), err
}

func read(r kv.Reader, q fdbpq.Queue, name string) (*record, error) {
	if err := CheckName(name); err != nil {
		return nil, err
	}
	h, err := homeOf(r, q)
	if err != nil {
		return nil, err
	}
	row, err := h.read(r, name)
	if err == nil && row == nil {
		err = ErrNone
	}
	return row, err
}
