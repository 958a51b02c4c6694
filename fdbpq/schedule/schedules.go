package schedule

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/named"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/calendar"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Schedules are the schedules of a store as one process has them. Its methods may be called from any number of
// goroutines. Those that take a queue work inside a transaction of the caller, as the methods of the queue do.
type Schedules struct {
	store  *fdbpq.Store
	inside *inside.Store
	runner runner
}

// New returns the schedules of a store. A process has one of them for each store that it opens.
func New(store *fdbpq.Store) *Schedules {
	s := &Schedules{store: store, inside: store.Inside()}
	s.runner.zoneData = calendar.ZoneData
	if s.inside.Zones != "" {
		s.runner.zoneData = s.inside.Zones
	}
	s.runner.late.bounds = lateBounds{ofQueue: 4096, inAll: 65_536, read: 32_768, page: 1024}
	if b := s.inside.Late; b != nil {
		s.runner.late.bounds = lateBounds{ofQueue: b[0], inAll: b[1], read: b[2], page: b[3]}
	}
	s.runner.late.forget()
	return s
}

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
		return Schedule{}, wrong(after.noTime(p))
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
	if err := s.runner.planned(tx, after); err != nil {
		return Schedule{}, err
	}
	shown := after.schedule(name)
	shown.Dropped = dropped
	return shown, nil
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
	if err := h.remove(tx, name, row); err != nil {
		return err
	}
	return fdbpq.NoteUse(tx, q)
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
	pushed, err := q.Full(room(fdbpq.NewItemBytes(&item))).Push(tx, item)
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
		return nil, wrong(would.noTime(p))
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

// Bytes returns how many bytes schedules have, of the queues behind a name up to the last.
func (s *Schedules) Bytes(r kv.Reader, after, last string) (n int64, err error) {
	_, begin := tuple.Range(layout.QueueRow(layout.SpaceSchedules, after))
	_, end := tuple.Range(layout.QueueRow(layout.SpaceSchedules, last))
	for more := true; more; {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: fdbpq.MaxBatch})
		if err != nil {
			return 0, err
		}
		more = len(rows) == fdbpq.MaxBatch
		for _, pair := range rows {
			begin = append(slices.Clip(pair.Key), 0)
			h, _, err := named.ParseHome(layout.SpaceSchedules, pair.Key)
			if err != nil {
				return 0, fmt.Errorf("damaged counts of schedules: %w", err)
			}
			living, err := s.store.Queue(h.Queue).Born(r)
			if err != nil && err != fdbpq.ErrNoQueue {
				return 0, err
			}
			if err != nil || living != h.Born {
				continue // of a queue that was deleted
			}
			counted, err := parseCounts(pair.Value)
			if err != nil {
				return 0, err
			}
			n += counted.bytes + counted.schedules*fdbpq.DefinitionBytes
		}
	}
	return n, nil
}

// Fire pushes the items of schedules whose time has come, in one bounded transaction. Of several
// processes one fires at a time. Without room queues always take items. While more schedules are due than fit in, their queues
// take turns. owner names the owner of a queue, and owners take turns, too. Without it all queues have one owner.
//
// A nominal time fires once. The transaction that pushes for it depends on how far the schedule
// was, and moves that on.
func (s *Schedules) Fire(ctx context.Context, room Room, owner func(queue string) string) (fired Fired, err error) {
	if none, err := s.none(ctx); none || err != nil {
		return Fired{}, err
	}
	late := &s.runner.late
	late.Lock()
	defer late.Unlock()
	late.owner = owner
	defer func() {
		if err != nil {
			late.forget()
		}
	}()
	session := s.store.Session()
	defer session.Release()
	var f firing
	var asked []func()
	defer func() {
		for _, ended := range asked {
			ended()
		}
	}()
	hasRoom := func(queue string, bytes int) error {
		if room == nil {
			return nil
		}
		ended, full := room(queue, bytes)
		asked = append(asked, ended)
		return full
	}
	runs := 0
	err = session.Update(ctx, func(tx kv.Tx) (err error) {
		if runs++; runs > 1 {
			late.forget() // what the transaction that failed has taken
		}
		return s.store.In(tx, func(w *fdbpq.Work) error {
			f = firing{inside: s.inside, runner: &s.runner, tx: tx, room: hasRoom, work: w, late: late}
			return f.run()
		})
	})
	if err != nil {
		s.inside.Damaged.Note(err)
		return Fired{}, fmt.Errorf("fire schedules: %w", err)
	}
	if f.fired.Clock != 0 {
		s.runner.agree() // from now on
	}
	if f.replanned {
		s.runner.replan(f.replannedTo)
	}
	return f.fired, nil
}

// none reports whether the store has no schedule that waits for a time.
func (s *Schedules) none(ctx context.Context) (none bool, err error) {
	begin, end := tuple.Range(layout.Row(layout.SpaceDue))
	err = s.store.View(ctx, func(r kv.Reader) error {
		rows, err := r.Range(begin, end, kv.RangeOptions{Limit: 1})
		none = len(rows) == 0
		return err
	})
	return none && err == nil, err
}

// Runner has callbacks for Run, which never run at the same time; each may be nil.
type Runner struct {
	Event   func(fdbpq.Event) // of an item
	Problem func(error)       // a step failed; Run goes on
	Fired   func(Fired)       // schedules were looked at; behind the events

	Room Room // nil: queues take items of schedules whenever they have room

	// Owner names the owner of a queue. Owners take turns with what their schedules push. Without it all queues have one owner.
	Owner func(queue string) string
}

// Run fires schedules until ctx ends. Every process that serves a store runs it once, beside Maintain of the store:
// leases do not wait for schedules.
func (s *Schedules) Run(ctx context.Context, r Runner) {
	if r.Event == nil {
		r.Event = func(fdbpq.Event) {}
	}
	if r.Problem == nil {
		r.Problem = func(error) {}
	}
	if r.Fired == nil {
		r.Fired = func(Fired) {}
	}
	s.inside.Fires.Store(true)
	defer s.inside.Fires.Store(false)
	due := time.NewTimer(storetime.Every)
	defer due.Stop()
	for {
		due.Reset(s.step(ctx, &r))
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
	}
}

// step fires once, and returns after what time there is something to do again.
func (s *Schedules) step(ctx context.Context, r *Runner) (wait time.Duration) {
	wait = storetime.Every
	inside.Step(ctx, r.Problem, func(ctx context.Context) error {
		fired, err := s.Fire(ctx, r.Room, r.Owner)
		switch {
		case s.inside.Damaged.Noted(err):
			wait = 1
		case err == nil:
			if fired.Next > 0 {
				wait = min(wait, fired.Next)
			}
			for _, event := range fired.Events {
				r.Event(event)
			}
			s.inside.Later.Report(fired.later, r.Problem)
			r.Fired(fired)
		}
		return err
	})
	return wait
}

// Check reads all rows of schedules and returns a sentence for each violation of an invariant, up to a hundred.
// Nothing may write to the store meanwhile: a concurrent write looks like damage. [fdbpq.Store.Check] checks all other
// rows.
//
// The invariants:
//   - every row can be parsed, and is of a queue that exists;
//   - a schedule has a definition and a progress, and the one index row that it needs;
//   - schedules are counted.
func (s *Schedules) Check(ctx context.Context) ([]string, error) {
	w := walk{
		rows: make(map[named.ID]*record), counts: make(map[named.Home]counts), due: make(map[string]bool),
		births: named.BirthsOf(s.store),
	}
	return w.all(ctx, s.inside.DB)
}
