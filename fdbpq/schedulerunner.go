package fdbpq

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/rota"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/calendar"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Schedules go by schedule time: store time and an offset, which a row has. So all processes
// agree on it, whatever their wall clocks say. The process that fires keeps it at its own wall
// clock.

const (
	runnerTerm = 2 * time.Second

	// clockAgrees is how far a wall clock may be from schedule time. A process with such a clock
	// may fire. It sets schedule time right if the difference is more than clockSlack.
	clockAgrees = 2 * time.Second
	clockSlack  = 50 * time.Millisecond

	// clockStays is how long a wall clock has to differ by the same amount, while nobody fires,
	// before its process sets schedule time by it. A clock that is set wrong for a moment changes
	// nothing, and a process that was restarted finds its place still free.
	clockStays = 60 * time.Second

	// replanAtOnce is how many schedules one transaction looks at after the zones have changed.
	replanAtOnce = 500
)

// runner is what a process knows of its turn to fire.
type runner struct {
	mu       sync.Mutex
	differs  bool          // its clock differs, and nobody fires
	by       int64         // by how much
	since    time.Duration // since when, by the process's clock
	zoneData string        // the version of this program's zones

	replanBehind []byte // key behind which schedules are to be planned again by these zones; nil: from the first on

	late late
}

// schedules is what a store does about the schedules of its queues.
type schedules struct{ *Store }

// now is schedule time in nanoseconds since 1970. Before a process has fired, it is the
// wall clock of this one.
func (s schedules) now(r kv.Reader) (int64, error) {
	now, err := s.inside.Clock.At(r)
	if err != nil {
		return 0, err
	}
	offset, known, err := scheduleOffset(r)
	if err != nil {
		return 0, err
	}
	if !known {
		return s.inside.Clock.Wall().UnixNano(), nil
	}
	return now + offset, nil
}

func scheduleOffset(r kv.Reader) (offset int64, known bool, err error) {
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
	s := f.store
	now, err := s.inside.Clock.At(f.tx.Snapshot())
	if err != nil {
		return false, err
	}
	own, until, err := s.inside.Term(f.tx, layout.SpaceRunner)
	if err != nil {
		return false, err
	}
	offset, known, err := scheduleOffset(f.tx)
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

// agree notes that another process fires, or that this one may.
func (r *runner) agree() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.differs = false
}

// stays reports whether the wall clock has differed from schedule time by the same amount for
// so long that it counts.
func (r *runner) stays(by int64, now time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.differs || time.Duration(by-r.by).Abs() > clockAgrees {
		r.differs, r.by, r.since = true, by, now
	}
	return now-r.since >= clockStays
}

// A row has a version of the zones of the tz database: no time of a schedule was planned with
// older ones. planned keeps that so.
func (s schedules) planned(tx kv.Tx, row *scheduleRow) error {
	if row.next == 0 || row.config.Zone == "UTC" {
		return nil
	}
	version, err := zonesVersion(tx.Snapshot())
	if err == nil && version > s.runner.zoneData {
		tx.Set(zonesRow(), []byte(s.runner.zoneData))
	}
	return err
}

func zonesRow() []byte { return layout.Row(layout.SpaceZones) }

func zonesVersion(r kv.Reader) (string, error) {
	value, err := r.Get(zonesRow())
	return string(value), err
}

// replan plans schedules again after the zones have changed, some at a time. A process with
// older zones than those that planned them changes nothing.
func (f *firing) replan() error {
	r := &f.store.runner
	version, err := zonesVersion(f.tx) // a process with older zones may plan one meanwhile
	if err != nil || version >= r.zoneData {
		return err
	}
	behind := r.replannedTo()
	begin, end := tuple.Range(layout.Row(layout.SpaceProgress))
	if behind != nil {
		begin = append(behind[:len(behind):len(behind)], 0)
	}
	rows, err := f.tx.Snapshot().Range(begin, end, kv.RangeOptions{Limit: replanAtOnce})
	if err != nil {
		return err
	}
	for _, pair := range rows {
		if err := f.replanOne(pair.Key); err != nil {
			return err
		}
	}
	if f.replanned = true; len(rows) == replanAtOnce {
		f.replannedTo = rows[len(rows)-1].Key
	} else {
		f.tx.Set(zonesRow(), []byte(r.zoneData))
	}
	return nil
}

func (r *runner) replannedTo() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.replanBehind
}

// replan notes how far the schedules are planned again, nil: all are.
func (r *runner) replan(behind []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.replanBehind = behind
}

func (f *firing) replanOne(key []byte) error {
	r := tuple.Read(key[len(layout.Row(layout.SpaceProgress)):])
	e := dueEntry{home: scheduleHome{r.Text(), r.Int()}, name: r.Text()}
	if r.Err() != nil {
		return fmt.Errorf("damaged schedule: %w", r.Err())
	}
	before, err := e.home.read(f.tx, e.name)
	if err != nil || before == nil || before.config.Paused || before.next == 0 || before.config.Zone == "UTC" {
		return err
	}
	p, err := newPlan(e.home.queue, e.name, before.config, before.created)
	if err != nil {
		return err
	}
	after := *before
	if after.plan(p, f.now); after.next != before.next {
		e.home.advance(f.tx, e.name, before, &after)
	}
	return nil
}

// run fires schedules until ctx ends.
func (s schedules) run(ctx context.Context, m *Maintenance) {
	due := time.NewTimer(storetime.Every)
	defer due.Stop()
	for {
		wait := storetime.Every
		m.step(ctx, func(ctx context.Context) error {
			fired, err := s.fire(ctx, m.Room, m.Owner)
			if s.inside.Damaged.Noted(err) {
				wait = 1
			}
			if err == nil && fired.Next > 0 {
				wait = min(wait, fired.Next)
			}
			for _, event := range fired.Events {
				m.Event(event)
			}
			if err == nil && m.Fired != nil {
				m.Fired(fired)
			}
			return err
		})
		due.Reset(wait)
		select {
		case <-ctx.Done():
			return
		case <-due.C:
		}
	}
}

func (r *runner) init() {
	r.zoneData = calendar.ZoneData
	r.late.bounds = lateBounds{ofQueue: 4096, inAll: 65_536, read: 32_768, page: 1024}
	r.late.forget()
}

// late are the due index rows that wait for their turn, as far as they were read: those of a burst are more than fit into one
// transaction. Each transaction reads on from where the last one has stopped, and some rows again from the first on: another
// process may have written one there, and of a queue with many rows most were passed over. When the last turn is over nothing is
// kept.
type late struct {
	sync.Mutex
	bounds lateBounds
	turns  *rota.Rota[dueEntry]
	owner  func(queue string) string // nil: all queues are of one

	ahead, again [scheduleLanes][]byte // where to read on; nil: nothing was read
	lane         int                   // the one that is read again
	partly       bool                  // there may be due rows that were not read
}

// lateBounds are how many rows wait, and are read.
type lateBounds struct {
	ofQueue, inAll int
	read           int // by one transaction, and a page of each lane in any case
	page           int // at a time, and again
}

const lateFirst = 17 // rows of each lane that are read at first: of few schedules these are all

// forget has all rows be read anew.
func (l *late) forget() {
	l.turns = rota.New[dueEntry](l.bounds.ofQueue, l.bounds.inAll)
	l.ahead, l.again, l.partly = [scheduleLanes][]byte{}, [scheduleLanes][]byte{}, false
}

// more reports whether there may be something to do at once.
func (l *late) more() bool { return l.turns.Len() > 0 || l.partly }

// add has a row wait, and reports whether there is room for it.
func (l *late) add(e dueEntry) bool {
	owner := ""
	if l.owner != nil {
		owner = l.owner(e.home.queue)
	}
	return l.turns.Add(owner, e.home.queue, string(e.key), e)
}

// look reads rows that are due by now, and returns when the first of the others is.
func (l *late) look(tx kv.Tx, now int64, damaged *damage.Rows) (earliest int64, err error) {
	if l.turns.Len() == 0 {
		l.forget()
	}
	anew := l.ahead[0] == nil
	if anew {
		for lane := range l.ahead {
			begin, end := tuple.Range(lanePrefix(int64(lane)))
			l.ahead[lane], l.again[lane] = begin, begin
			tx.PrefetchRange(begin, end, kv.RangeOptions{Limit: lateFirst})
		}
	}
	walk := lateWalk{late: l, r: tx.Snapshot(), now: now, damaged: damaged, left: l.bounds.read, earliest: math.MaxInt64}
	for lane := range l.ahead {
		_, end := tuple.Range(lanePrefix(int64(lane)))
		walk.left = max(walk.left, l.bounds.page) // whatever others have
		if l.ahead[lane], err = walk.rows(l.ahead[lane], end, lateFirst); err != nil {
			return 0, err
		}
	}
	l.partly = walk.partly || !anew
	if !anew {
		walk.left = l.bounds.page
		err = l.lookAgain(&walk)
	}
	return walk.earliest, err
}

// lookAgain reads some rows again, lane after lane.
func (l *late) lookAgain(walk *lateWalk) (err error) {
	for range l.again {
		begin, _ := tuple.Range(lanePrefix(int64(l.lane)))
		if l.again[l.lane], err = walk.rows(l.again[l.lane], l.ahead[l.lane], l.bounds.page); err != nil || walk.left <= 0 {
			return err
		}
		l.again[l.lane] = begin
		l.lane = (l.lane + 1) % scheduleLanes
	}
	return nil
}

// lateWalk reads index rows.
type lateWalk struct {
	*late
	r        kv.Reader
	now      int64
	damaged  *damage.Rows
	left     int // rows that may be read
	earliest int64
	partly   bool // it has passed rows over, or had no rows left
}

// rows has the due rows of a range wait, and returns where to read on. The first read has so many rows.
func (w *lateWalk) rows(begin, end []byte, first int) ([]byte, error) {
	for limit := min(first, w.left); bytes.Compare(begin, end) < 0; limit = min(w.bounds.page, w.left) {
		if limit <= 0 {
			w.partly = true
			break
		}
		rows, err := w.r.Range(begin, end, kv.RangeOptions{Limit: limit})
		if err != nil {
			return nil, err
		}
		w.left -= len(rows)
		for _, pair := range rows {
			if bytes.Compare(pair.Key, begin) < 0 {
				continue // of a queue that was passed over
			}
			if w.damaged.Has(pair.Key) {
				begin = append(slices.Clip(pair.Key), 0)
				continue
			}
			e, err := parseDue(pair.Key)
			if err != nil {
				return nil, damage.Of(pair.Key, "", err)
			}
			if e.due > w.now {
				w.earliest = min(w.earliest, e.due)
				return begin, nil
			}
			if begin = append(slices.Clip(pair.Key), 0); !w.add(e) {
				begin, w.partly = e.behindQueue(), true
			}
		}
		if len(rows) < limit {
			break
		}
	}
	return begin, nil
}
