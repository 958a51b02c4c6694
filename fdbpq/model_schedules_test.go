package fdbpq_test

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
)

// modelSchedule is a schedule as the protocol describes it. Its times are schedule times, in
// nanoseconds since 1970.
type modelSchedule struct {
	config     schedule.Config
	item       modelScheduleItem
	made       int64
	done       int64 // it is done with all times up to this one
	next       int64 // 0: none
	due        int64 // when it is looked at; 0: never
	last       int64 // 0: none has fired
	full       bool
	told       int64          // minute of its last events
	untold     [3]modelMisses // for down, full and overlap
	fired      int64
	missed     int64
	overlapped int64
}

// modelMisses are times without an item that no event has told yet.
type modelMisses struct{ from, to, count int64 }

// looked is when the schedule is looked at next, 0: never.
func (s *modelSchedule) looked() int64 {
	if s.untold == [3]modelMisses{} {
		return s.due
	}
	tells := (s.told + 1) * 60e9
	if s.due == 0 {
		return tells
	}
	return min(s.due, tells)
}

// isDone reports whether the schedule has no further time.
func (s *modelSchedule) isDone() bool { return s.next == 0 && s.due != 0 }

type modelScheduleItem struct {
	headers, payload string
	priority         int64
	hasPriority      bool
	key              string
	ttl              time.Duration
}

// modelFiring is what is known of schedules beyond those that there are.
type modelFiring struct {
	known  bool  // schedule time is
	offset int64 // of schedule time from store time
	runner string
	until  int64                     // store time at which its term ends
	apart  map[string]modelApartness // of the clocks of processes
	gone   []int64                   // when what is left of deleted queues is looked at
	sees   []dueSchedule             // of a fire that overlaps another operation: what there was before both; nil: all
}

// modelApartness is by how much the clock of a process differs from schedule time, and since
// when.
type modelApartness struct{ by, since int64 }

// specTimes are the times of the specs that the test makes up, worked out from what the
// protocol says of each. They are in nanoseconds.
type specTimes struct {
	first, every int64   // the first one, and the distance of the others; 0: there are none
	ofDay        []int64 // of each day, in seconds
}

var ofDays sync.Map // of specs: the part of specTimes that takes a moment

// timesOf returns the times of a spec, and false for one that is refused.
func timesOf(c *schedule.Config, made int64) (t specTimes, good bool) {
	word, argument, _ := strings.Cut(c.Spec, " ")
	if c.Start != nil && c.End != nil && c.End.Before(*c.Start) || strings.HasPrefix(c.Spec, "@") && word != "@hourly" && c.Zone != "UTC" {
		return t, false
	}
	switch word {
	case "@at":
		at, err := time.Parse(time.RFC3339, argument)
		t.first = at.UnixNano()
		return t, err == nil
	case "@every":
		d, err := time.ParseDuration(argument)
		t.first, t.every = made/1e9*1e9+int64(d), int64(d)
		if c.Start != nil {
			t.first = c.Start.UnixNano()
		}
		return t, err == nil
	}
	if known, found := ofDays.Load(c.Spec); found {
		return specTimes{ofDay: known.([]int64)}, true
	}
	var second, minute, hour int64
	var matches func(int64) bool
	switch scanned := func(format string, into ...any) bool {
		n, err := fmt.Sscanf(c.Spec+"|", format+"|", into...)
		return err == nil && n == len(into)
	}; {
	case c.Spec == "@hourly":
		matches = func(s int64) bool { return s%3600 == 0 }
	case scanned("*/%d * * * * *", &second):
		matches = func(s int64) bool { return s%60%second == 0 }
	case scanned("*/%d * * * *", &minute):
		matches = func(s int64) bool { return s%60 == 0 && s/60%60%minute == 0 }
	case scanned("%d %d * * *", &minute, &hour):
		matches = func(s int64) bool { return s == hour*3600+minute*60 }
	default:
		return t, false
	}
	for s := range int64(86400) {
		if matches(s) {
			t.ofDay = append(t.ofDay, s)
		}
	}
	ofDays.Store(c.Spec, t.ofDay)
	return t, true
}

// behind returns the first time behind an instant and within the bounds, 0 if there is none.
func (t specTimes) behind(at int64, c *schedule.Config) int64 {
	if c.Start != nil {
		at = max(at, c.Start.UnixNano()-1)
	}
	next := t.first
	switch {
	case t.every > 0 && at >= t.first:
		next += ((at-t.first)/t.every + 1) * t.every
	case t.ofDay != nil:
		day, second := at/1e9/86400, at/1e9%86400
		if i := slices.IndexFunc(t.ofDay, func(s int64) bool { return s > second }); i >= 0 {
			next = (day*86400 + t.ofDay[i]) * 1e9
		} else {
			next = ((day+1)*86400 + t.ofDay[0]) * 1e9
		}
	case next <= at:
		return 0
	}
	if c.End != nil && next > c.End.UnixNano() {
		return 0
	}
	return next
}

func (s *modelSchedule) times() specTimes {
	t, _ := timesOf(&s.config, s.made)
	return t
}

// plan finds out when the schedule is looked at next. One that has no further time goes a day
// later.
func (s *modelSchedule) plan(now int64) {
	goes := now + int64(24*time.Hour)
	if s.isDone() {
		goes = s.due
	}
	next, was, full := s.times().behind(s.done, &s.config), s.next, s.full
	if s.config.Count > 0 && s.fired >= s.config.Count {
		next = 0
	}
	switch s.next, s.due, s.full = 0, 0, false; {
	case next == 0:
		s.due = goes
	case !s.config.Paused:
		s.next, s.due = next, next
		if full && next == was {
			s.full, s.due = true, max(next, now)
		}
	}
}

// scheduleTime is the time of schedules. Before one has fired it is the clock of the process.
func (m *model) scheduleTime(at moment) int64 {
	if !m.firing.known {
		return at.wall.UnixNano()
	}
	return at.now + m.firing.offset
}

// setSchedule makes or changes a schedule.
func (m *model) setSchedule(queue, name string, at moment, change func(*schedule.Config), item *modelScheduleItem) outcome {
	m.use(queue, at)
	q := m.create(queue)
	now := m.scheduleTime(at)
	before, existed := q.schedules[name]
	s := before
	if !existed {
		s = modelSchedule{made: now, done: now, config: schedule.Config{
			Zone: "UTC", Overlap: schedule.OverlapSkip, CatchUp: fdbpq.Duration(time.Hour), Missed: schedule.MissedOne,
		}}
	}
	if change(&s.config); item != nil {
		s.item = *item
	}
	if _, good := timesOf(&s.config, s.made); !good {
		return outcome{Err: "schedule"}
	}
	return m.changed(q, name, before, s, now)
}

func (m *model) changed(q *modelQueue, name string, before, s modelSchedule, now int64) outcome {
	others := otherTimes(&s.config, &before.config)
	if others || before.config.Paused != s.config.Paused || before.next == 0 {
		s.done = max(now, s.done)
	}
	if s.plan(now); others && s.next == 0 && !s.config.Paused {
		return outcome{Err: "schedule"}
	}
	dropped := s.drop(&before, others, now)
	q.keep(name, s)
	v := s.view(name)
	v.Dropped = dropped
	return outcome{Schedules: []scheduleView{v}}
}

// drop has the times pass that have come, and that a change keeps from firing.
func (s *modelSchedule) drop(before *modelSchedule, others bool, now int64) int64 {
	if before.config.Paused || before.next == 0 {
		return 0
	}
	var dropped []int64
	for t := before.times().behind(before.done, &before.config); t != 0 && t <= now; t = before.times().behind(t, &before.config) {
		if others || s.config.Paused || s.next == 0 || s.config.End != nil && t > s.config.End.UnixNano() {
			dropped = append(dropped, t)
		}
	}
	reason := 0
	if before.full {
		reason = 1
	}
	s.missed += int64(len(dropped))
	s.untold[reason].add(dropped)
	return int64(len(dropped))
}

// otherTimes reports whether a schedule begins anew with another configuration.
func otherTimes(after, before *schedule.Config) bool {
	start := func(c *schedule.Config) time.Time {
		if c.Start == nil {
			return time.Time{}
		}
		return *c.Start
	}
	return after.Spec != before.Spec || after.Zone != before.Zone || !start(after).Equal(start(before))
}

func (q *modelQueue) keep(name string, s modelSchedule) {
	if q.schedules == nil {
		q.schedules = make(map[string]modelSchedule)
	}
	q.schedules[name] = s
}

// scheduleOf finds a schedule.
func (m *model) scheduleOf(queue, name string) (*modelQueue, modelSchedule, string) {
	q := m.queue(queue)
	if q == nil {
		return nil, modelSchedule{}, "no queue"
	}
	s, known := q.schedules[name]
	if !known {
		return nil, s, "no schedule"
	}
	return q, s, ""
}

func (m *model) pauseSchedule(queue, name string, at moment, paused, fromNow bool) outcome {
	q, s, refused := m.scheduleOf(queue, name)
	if refused != "" {
		return outcome{Err: refused}
	}
	before := s
	now := m.scheduleTime(at)
	s.config.Paused = paused
	if !fromNow {
		return m.changed(q, name, before, s, now)
	}
	s.done = now
	if s.plan(now); s.next == 0 {
		return outcome{Err: "schedule"}
	}
	dropped := s.drop(&before, true, now)
	q.keep(name, s)
	v := s.view(name)
	v.Dropped = dropped
	return outcome{Schedules: []scheduleView{v}}
}

func (m *model) deleteSchedule(queue, name string) outcome {
	q, _, refused := m.scheduleOf(queue, name)
	if refused == "" {
		delete(q.schedules, name)
	}
	return outcome{Err: refused}
}

func (m *model) runSchedule(queue, name, msgID string, at moment, got outcome) outcome {
	_, s, refused := m.scheduleOf(queue, name)
	if refused != "" {
		return outcome{Err: refused}
	}
	item := s.push(name, m.scheduleTime(at)/1e6*1e6)
	item.msgID = msgID
	return m.push(queue, at, []pushItem{item}, got)
}

// push is the item for a time.
func (s *modelSchedule) push(name string, at int64) pushItem {
	item := pushItem{
		payload: s.item.payload, priority: s.item.priority, hasPriority: s.item.hasPriority, key: s.item.key, ttl: s.item.ttl,
		headers: fmt.Sprintf("%sPQ-Schedule: %s\r\nPQ-Scheduled-At: %s\r\n", s.item.headers, name, time.Unix(0, at).UTC().Format(time.RFC3339Nano)),
	}
	if s.config.Overlap != schedule.OverlapAllow {
		item.unique = "\x00schedule\x00" + name
	}
	item.untilLeased = s.config.Overlap == schedule.OverlapOne
	if s.config.Overlap == schedule.OverlapReplace {
		item.onConflict = fdbpq.ConflictReplace
	}
	return item
}

// dueSchedule is a schedule that is to be looked at.
type dueSchedule struct {
	shard       uint32
	due         int64
	queue, name string
}

// looked are all schedules with a due time, in the order in which a firing comes to them.
func (m *model) looked() (all []dueSchedule) {
	for queue, q := range m.queues {
		shard := fnv.New32a()
		shard.Write([]byte(queue))
		for name, s := range q.schedules {
			if at := s.looked(); at != 0 {
				all = append(all, dueSchedule{shard.Sum32() % 16, at, queue, name})
			}
		}
	}
	if m.firing.sees != nil {
		all = slices.DeleteFunc(all, func(d dueSchedule) bool { return !slices.Contains(m.firing.sees, d) })
	}
	slices.SortFunc(all, func(a, b dueSchedule) int {
		return cmp.Or(cmp.Compare(a.shard, b.shard), cmp.Compare(a.due, b.due), cmp.Compare(a.queue, b.queue), cmp.Compare(a.name, b.name))
	})
	return all
}

// fire fires all that is due.
func (m *model) fire(at moment) outcome {
	if len(m.looked())+len(m.firing.gone) == 0 {
		return outcome{}
	}
	wait, busy, set := m.becomeRunner(at)
	out := outcome{N: wait, More: busy, Retry: set, Ready: m.scheduleTime(at) - at.wall.UnixNano()}
	if wait > 0 {
		return out
	}
	now := m.scheduleTime(at)
	m.firing.gone = slices.DeleteFunc(slices.Clone(m.firing.gone), func(due int64) bool { return due <= now })
	did := make(map[string]*schedule.FiredQueue)
	for _, d := range m.looked() {
		if d.due > now {
			continue
		}
		out.OK = true
		q := m.queues[d.queue]
		s := q.schedules[d.name]
		if s.isDone() && s.due <= now {
			delete(q.schedules, d.name)
			continue
		}
		if s.next == 0 {
			s.tell(d.queue, d.name, now, &out)
			q.schedules[d.name] = s
			continue
		}
		if did[d.queue] == nil {
			did[d.queue] = new(schedule.FiredQueue)
		}
		m.catchUp(q, d.name, &s, at, now, did[d.queue], &out)
		q.schedules[d.name] = s
	}
	for queue, n := range did {
		out.Events = append(out.Events, firedView(queue, *n))
	}
	first := int64(math.MaxInt64)
	for _, d := range m.looked() {
		first = min(first, d.due)
	}
	for _, due := range m.firing.gone {
		first = min(first, due)
	}
	if first != math.MaxInt64 {
		out.N = first - now
	} else if out.OK { // the last look saw no schedules
		out.Ready = 0
	}
	return out
}

// becomeRunner has a process fire, unless another one does or its clock is wrong. Then wait
// says when it tries again.
func (m *model) becomeRunner(at moment) (wait int64, busy bool, set time.Duration) {
	f := &m.firing
	apart := at.wall.UnixNano() - m.scheduleTime(at)
	far := apart > 2e9 || apart < -2e9
	if f.runner != at.process && f.until > at.now && !m.alone {
		delete(f.apart, at.process)
		return f.until - at.now, true, 0
	}
	if far {
		was, known := f.apart[at.process]
		if d := apart - was.by; !known || d > 2e9 || d < -2e9 {
			was = modelApartness{apart, at.elapsed}
			f.apart[at.process] = was
		}
		if at.elapsed-was.since < 60e9 {
			return int64(time.Second), false, 0
		}
		set = time.Duration(apart)
	}
	delete(f.apart, at.process)
	if !f.known || apart > 50e6 || apart < -50e6 {
		f.known, f.offset = true, at.wall.UnixNano()-at.now
	}
	if f.runner != at.process || f.until-at.now < 1e9 {
		f.runner, f.until = at.process, at.now+2e9
	}
	return 0, false, set
}

// catchUp fires the times of a schedule that have come, as far as it is to.
func (m *model) catchUp(q *modelQueue, name string, s *modelSchedule, at moment, now int64, did *schedule.FiredQueue, out *outcome) {
	var passed []int64
	for t := s.times().behind(s.done, &s.config); t != 0 && t <= now; t = s.times().behind(t, &s.config) {
		passed = append(passed, t)
	}
	old := 0 // of them, those that are too late
	for old < len(passed) && passed[old] < now-int64(s.config.CatchUp) {
		old++
	}
	if s.config.Missed == schedule.MissedOne && len(passed) > 0 {
		last := len(passed) - 1
		for last > 0 && !s.full && passed[last-1] >= now-5e9 {
			last--
		}
		old = max(old, last)
		if passed[len(passed)-1] < now-int64(s.config.CatchUp) {
			old = len(passed)
		}
	}
	missed, fires := passed[:old], passed[old:]
	switch {
	case len(fires) > 0:
		s.done = max(s.done, fires[0]-1) // also when nothing fires now: what is before is decided
	case len(missed) > 0:
		s.done = missed[len(missed)-1]
	}
	s.missed += int64(len(missed))
	did.Missed += int64(len(missed))
	wasFull, full := s.full, false
	var overlapped []int64
	for _, t := range fires {
		if s.config.Count > 0 && s.fired >= s.config.Count {
			break
		}
		pushed := m.push(q.name, at, []pushItem{s.push(name, t)}, outcome{})
		out.Events = append(out.Events, pushed.Events...)
		one := pushed.Pushed[0]
		if full = one.Err != "" && one.Err != "leased" && one.Err != "another key"; full {
			break
		}
		if s.done = t; one.Err != "" || one.Duplicate && s.config.Overlap != schedule.OverlapReplace {
			overlapped = append(overlapped, t)
			continue
		}
		s.fired++
		s.last = t
		did.Fired++
		out.Leased += time.Duration(now - t)
	}
	s.overlapped += int64(len(overlapped))
	did.Overlapped += int64(len(overlapped))
	if s.plan(now); full {
		s.full, s.due = true, now+5e9
	}
	reason := 0
	if wasFull {
		reason = 1
	}
	s.untold[reason].add(missed)
	s.untold[2].add(overlapped)
	s.tell(q.name, name, now, out)
}

func (m *modelMisses) add(times []int64) {
	for _, t := range times {
		if m.count == 0 {
			m.from, m.to = t, t
		}
		m.from, m.to, m.count = min(m.from, t), max(m.to, t), m.count+1
	}
}

// tell tells the misses of a schedule, once a minute.
func (s *modelSchedule) tell(queue, name string, now int64, out *outcome) {
	if s.untold == [3]modelMisses{} || s.told == now/60e9 {
		return
	}
	s.told = now / 60e9
	for i, reason := range []string{"down", "full", "overlap"} {
		if lost := s.untold[i]; lost.count > 0 {
			out.Events = append(out.Events, missedTimes(queue, name, reason, lost.from, lost.to, lost.count))
		}
	}
	s.untold = [3]modelMisses{}
}

// missedTimes shows times of a schedule that passed without an item.
func missedTimes(queue, name, reason string, from, to, count int64) string {
	return fmt.Sprintf("missed %d times of %s of %s from %d to %d: %s", count, name, queue, from, to, reason)
}

func firedView(queue string, n schedule.FiredQueue) string { return fmt.Sprintf("%s: %+v", queue, n) }

func (m *model) listSchedules(queue string) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	out := outcome{N: int64(len(q.schedules))}
	for _, name := range slices.Sorted(maps.Keys(q.schedules)) {
		s := q.schedules[name]
		out.Schedules = append(out.Schedules, s.view(name))
		if s.next != 0 && (out.Ready == 0 || s.next < out.Ready) {
			out.Ready = s.next
		}
	}
	return out
}

func (m *model) showSchedule(queue, name string, times int) outcome {
	_, s, refused := m.scheduleOf(queue, name)
	if refused != "" {
		return outcome{Err: refused}
	}
	v := s.view(name)
	if !s.isDone() {
		v.Times = s.preview(s.done, times)
	}
	return outcome{Schedules: []scheduleView{v}}
}

func (m *model) previewSchedule(queue, name string, at moment, change func(*schedule.Config), times int) outcome {
	now := m.scheduleTime(at)
	_, s, refused := m.scheduleOf(queue, name)
	if refused != "" {
		s = modelSchedule{made: now, config: schedule.Config{Zone: "UTC"}}
	}
	before := s.config
	change(&s.config)
	if _, good := timesOf(&s.config, s.made); !good {
		return outcome{Err: "schedule"}
	}
	shown := s.preview(now, times)
	if otherTimes(&s.config, &before) && shown == "" && !s.config.Paused {
		return outcome{Err: "schedule"}
	}
	return outcome{Schedules: []scheduleView{{Times: shown}}}
}

func (s *modelSchedule) preview(after int64, times int) (shown string) {
	if s.config.Count > 0 {
		times = min(times, int(max(0, s.config.Count-s.fired)))
	}
	for range times {
		if after = s.times().behind(after, &s.config); after == 0 {
			break
		}
		shown += fmt.Sprintln(after)
	}
	return shown
}

// scheduleView is a schedule in a form that can be compared.
type scheduleView struct {
	Name, Config, Item, Times string
	Next, Due, Last           int64
	Full, Done                bool
	Fired, Missed, Overlapped int64
	Dropped                   int64
}

func (s *modelSchedule) view(name string) scheduleView {
	v := scheduleView{
		Name: name, Config: configView(&s.config), Item: fmt.Sprintf("%+v", s.item),
		Next: s.next, Last: s.last, Full: s.full, Done: s.isDone(),
		Fired: s.fired, Missed: s.missed, Overlapped: s.overlapped,
	}
	if s.next != 0 {
		v.Due = s.due
	}
	return v
}
