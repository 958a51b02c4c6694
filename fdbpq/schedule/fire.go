package schedule

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/internal/damage"
	"github.com/pqbridge/pqbridge/fdbpq/internal/inside"
	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/internal/storetime"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// The bounds of the transaction of one Fire.
const (
	fireTimes  = 100     // times of one schedule
	fireTurn   = 25      // the same while other queues wait
	fireTotal  = 256     // items, and schedules
	fireTxSize = 1 << 20 // of all but the last item

	// maxCaughtUp bounds how many times of one schedule fire late.
	maxCaughtUp = 1000

	// punctual is how late a time may be that always fires, unless the queue was full: another bridge may have had to take over.
	punctual = 5 * time.Second

	// fullRetry is after what time a schedule tries a full queue again.
	fullRetry = 5 * time.Second
)

// Fired is the result of a Fire.
type Fired struct {
	Schedules int           // looked at
	Events    []fdbpq.Event // of items
	Missed    []MissedTimes
	Queues    map[string]FiredQueue
	Lateness  []time.Duration // of each firing
	Next      time.Duration   // until there is something to do; 0: there are no schedules
	Busy      bool            // another process fires
	Clock     time.Duration   // by how much the clock of schedules was set, 0 if it was not
	Offset    time.Duration   // of the clock of schedules from this process's

	later inside.Passed
}

// MissedTimes are times of a schedule that passed without an item. A firing reports misses at once, unless it has reported
// others of the schedule within the same minute: these follow, together, in the next minute.
type MissedTimes struct {
	Queue    string
	Schedule string    // its name
	Reason   string    // why there was no item: down, full or overlap
	From, To time.Time // the first and the last time
	Count    int64     // the number of times
	AtLeast  bool      // there may be more times than Count
}

var missReasonNames = [missReasons]string{missedDown: "down", missedFull: "full", missedOverlap: "overlap"}

// FiredQueue is what the schedules of a queue did. Bytes are those of the items that were pushed, or would have overlapped.
type FiredQueue struct{ Fired, Missed, Overlapped, Bytes int64 }

// Room returns the reason why a queue takes no new item of this many bytes now, or nil. ended is called behind the transaction
// that asked.
type Room func(queue string, bytes int) (ended func(), full error)

// firing is the transaction of one Fire.
type firing struct {
	inside *inside.Store
	runner *runner
	tx     kv.Tx
	room   func(string, int) error
	now    int64 // schedule time
	offset int64 // of it from store time
	txSize int
	total  int
	work   *fdbpq.Work
	late   *late
	fired  Fired

	replanned   bool // it has planned schedules again, after the zones have changed
	replannedTo []byte
}

func (f *firing) run() error {
	ready, err := f.becomeRunner()
	if err != nil || !ready {
		f.late.forget()
		return err
	}
	earliest, err := f.late.look(f.tx, f.now, &f.inside.Damaged)
	if err != nil {
		return err
	}
	for looked := 0; looked < fireTotal && f.total < fireTotal && f.txSize < fireTxSize; looked++ {
		e, ok := f.late.turns.Next()
		if !ok {
			break
		}
		again, err := f.fire(e)
		if errors.Is(err, fdbpq.ErrFormat) {
			f.fired.later.Add(e.home.Queue, err)
			continue
		}
		if err != nil {
			return damage.Of(e.key, e.home.Queue, err)
		}
		if again <= f.now {
			f.late.add(e.at(again))
		}
		earliest = min(earliest, again)
	}
	if f.fired.later != nil {
		f.inside.Take(f.tx, layout.SpaceRunner, f.now-f.offset) // a later program may fire from now on
	}
	if earliest != math.MaxInt64 {
		f.fired.Next = max(time.Duration(earliest-f.now), 1)
	}
	if f.late.more() || f.replannedTo != nil {
		f.fired.Next = 1
	}
	return nil
}

// becomeRunner makes this process the one that fires, and reports whether it is.
func (f *firing) becomeRunner() (ready bool, err error) {
	now, err := f.inside.Clock.At(f.tx.Snapshot())
	if err != nil {
		return false, err
	}
	own, until, err := f.inside.Term(f.tx, layout.SpaceRunner)
	if err != nil {
		return false, err
	}
	offset, known, err := clockOffset(f.tx)
	if err != nil {
		return false, err
	}
	difference := f.inside.Clock.Wall().UnixNano() - (now + offset)
	far := time.Duration(difference).Abs() > clockAgrees
	if f.fired.Offset = time.Duration(-difference); !known {
		f.fired.Offset, far = 0, false
	}
	if !own && until > now {
		f.runner.agree()
		f.fired.Busy, f.fired.Next = true, time.Duration(until-now)
		return false, nil
	}
	if far && !f.runner.stays(difference, f.inside.Clock.Elapsed()) {
		f.fired.Next = storetime.Every
		return false, nil
	}
	if far {
		f.fired.Clock = time.Duration(difference)
	} else {
		f.runner.agree()
	}
	if !known || time.Duration(difference).Abs() > clockSlack {
		offset += difference
		f.tx.Set(layout.Row(layout.SpaceScheduleClock), tuple.AppendInt(nil, offset))
		f.fired.Offset = 0
	}
	if !own || until-now < int64(runnerTerm)/2 {
		f.inside.Take(f.tx, layout.SpaceRunner, now+int64(runnerTerm))
	}
	f.now, f.offset = now+offset, offset
	return true, f.replan()
}

// replanAtOnce is how many schedules one transaction looks at after the zones have changed.
const replanAtOnce = 500

// replan plans schedules again after the zones have changed, some at a time. A process with
// older zones than those that planned them changes nothing.
func (f *firing) replan() error {
	r := f.runner
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

func (f *firing) replanOne(key []byte) error {
	r := tuple.Read(key[len(layout.Row(layout.SpaceProgress)):])
	e := dueEntry{home: newHome(r.Text(), r.Int()), name: r.Text()}
	if r.Err() != nil {
		return fmt.Errorf("damaged schedule: %w", r.Err())
	}
	before, err := e.home.read(f.tx, e.name)
	if err != nil || before == nil || before.config.Paused || before.next == 0 || before.config.Zone == "UTC" {
		return err
	}
	p, err := newPlan(e.home.Queue, e.name, before.config, before.created)
	if err != nil {
		return err
	}
	after := *before
	if after.plan(p, f.now); after.next != before.next {
		e.home.advance(f.tx, e.name, before, &after)
	}
	return nil
}

// fire does what is to be done about a schedule, and returns when it is to be looked at again.
func (f *firing) fire(e dueEntry) (again int64, err error) {
	again = math.MaxInt64
	q := f.work.Queue(e.home.Queue)
	born, err := q.Born(f.tx)
	if err != nil && err != fdbpq.ErrNoQueue {
		return again, err
	}
	if err != nil || born != e.home.Born {
		f.tx.Clear(e.key) // of a queue that was deleted
		return again, nil
	}
	before, err := e.home.read(f.tx, e.name)
	if err != nil {
		return again, err
	}
	if before == nil || before.nextVisit() != e.due {
		f.tx.Clear(e.key)
		return again, nil
	}
	f.fired.Schedules++
	if before.done() && before.due <= f.now {
		return again, e.home.remove(f.tx, e.name, before) // it was done a day ago
	}
	if before.next == 0 { // it has misses to tell
		after := *before
		f.reportMisses(e.home.Queue, e.name, &after)
		e.home.advance(f.tx, e.name, before, &after)
		return cmp.Or(after.nextVisit(), again), nil
	}
	p, err := newPlan(e.home.Queue, e.name, before.config, before.created)
	if err != nil {
		return again, err
	}
	after := *before
	if err := f.catchUp(q, p, &after); err != nil {
		return again, err
	}
	e.home.advance(f.tx, e.name, before, &after)
	return cmp.Or(after.nextVisit(), again), f.runner.planned(f.tx, &after)
}

// catchUp handles the times of a schedule that are due, or the first ones of them.
func (f *firing) catchUp(q fdbpq.Queue, p *plan, row *record) error {
	last, kept := f.dueTimes(p, row)
	reason := row.missReason()
	missed := int64(0)
	from := instant(row.after + 1)
	switch {
	case len(kept) > 0 && kept[0].After(from):
		missed = row.miss(p, reason, from, kept[0].Add(-1))
	case len(kept) == 0 && !last.IsZero():
		missed = row.miss(p, reason, from, last)
	}
	done := row.after
	full := false
	overlapped := int64(0)
	most := fireTimes
	if f.late.turns.Len() > 0 {
		most = fireTurn
	}
	for n, t := range kept {
		if n == most || n > 0 && (f.txSize >= fireTxSize || f.total >= fireTotal) || p.Count > 0 && row.fired >= p.Count {
			break
		}
		pushed, err := f.push(q, row, p.name, t)
		if err != nil {
			return err
		}
		f.fired.Events = append(f.fired.Events, pushed.Events...)
		if full = pushed.Err != nil && !errors.Is(pushed.Err, fdbpq.ErrLeased) && !errors.Is(pushed.Err, fdbpq.ErrAnotherKey); full {
			break
		}
		if pushed.Err != nil || pushed.Duplicate && row.config.Overlap != OverlapReplace {
			overlapped++
			row.unreportedMisses[missedOverlap].add(t.UnixNano(), t.UnixNano(), 1, 0)
		} else {
			row.fired++
			row.last = t.UnixNano()
			f.fired.Lateness = append(f.fired.Lateness, time.Duration(f.now-p.dueAt(t).UnixNano()))
		}
		done = t.UnixNano()
	}
	if len(kept) == 0 && !last.IsZero() {
		done = last.UnixNano()
	} else if len(kept) > 0 {
		done = max(done, kept[0].UnixNano()-1) // what is before them is missed
	}
	row.after = done
	row.plan(p, f.now)
	if full && row.next != 0 {
		row.full, row.due = true, f.now+int64(fullRetry)
	}
	row.overlapped += overlapped
	if row.next == 0 || row.due > f.now { // otherwise its next turn reports all of them
		f.reportMisses(p.queue, p.name, row)
	}
	f.note(p.queue, func(n *FiredQueue) {
		n.Missed += missed
		n.Overlapped += overlapped
	})
	return nil
}

// dueTimes returns the last time that is due, and those of the due times that are to fire.
func (f *firing) dueTimes(p *plan, row *record) (last time.Time, kept []time.Time) {
	most := 1
	if p.Missed == MissedAll {
		most = maxCaughtUp
	}
	earliest, late := instant(f.now-int64(p.CatchUp)), instant(f.now)
	if !row.full {
		late = late.Add(-punctual)
	}
	for t, ok := p.times.Last(instant(f.now + 1)); ok && t.UnixNano() > row.after; t, ok = p.times.Last(t) {
		due := p.dueAt(t)
		if due.UnixNano() > f.now {
			continue // its jitter is not over
		}
		if last.IsZero() {
			last = t
		}
		if due.Before(earliest) || len(kept) >= most && due.Before(late) {
			break
		}
		kept = append(kept, t)
	}
	slices.Reverse(kept)
	return last, kept
}

// push pushes the item of a schedule for a time.
func (f *firing) push(q fdbpq.Queue, row *record, name string, t time.Time) (fdbpq.Pushed, error) {
	item := row.newItem(name, t)
	size := len(item.Headers) + len(item.Payload)
	pushed, err := q.Full(f.room(q.Name(), fdbpq.NewItemBytes(&item))).Push(f.tx, item)
	if err != nil {
		return fdbpq.Pushed{}, err
	}
	f.total++
	f.txSize += item.TxSize(q.Name())
	if p := &pushed[0]; p.Err == nil {
		f.note(q.Name(), func(n *FiredQueue) {
			n.Bytes += int64(size)
			if !p.Duplicate || row.config.Overlap == OverlapReplace {
				n.Fired++
			}
		})
	}
	return pushed[0], nil
}

func (f *firing) note(queue string, count func(*FiredQueue)) {
	if f.fired.Queues == nil {
		f.fired.Queues = make(map[string]FiredQueue)
	}
	n := f.fired.Queues[queue]
	count(&n)
	f.fired.Queues[queue] = n
}

// reportMisses reports the misses of a schedule, unless it has reported others in this minute: these follow
// in the next one.
func (f *firing) reportMisses(queue, name string, row *record) {
	minute := f.now / int64(time.Minute)
	if !row.hasUnreportedMisses() || row.lastReportMinute == minute {
		return
	}
	row.lastReportMinute = minute
	for reason, m := range row.unreportedMisses {
		if m.count > 0 {
			f.fired.Missed = append(f.fired.Missed, MissedTimes{
				Queue: queue, Schedule: name, Reason: missReasonNames[reason],
				From: instant(m.from), To: instant(m.to), Count: m.count, AtLeast: m.atLeast != 0,
			})
		}
	}
	row.unreportedMisses = [missReasons]misses{}
}
