package bridge

import (
	"bytes"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// showSchedule shows a schedule with its next times, or the times that it would have.
type showSchedule struct {
	jsonQuery
	object []byte // what it would be, nil: as it is
	item   *schedule.Item
}

func makeSchedule(subjects.Verb) work { return new(showSchedule) }

func (s *showSchedule) Read(w *codec.Wire) (f *failure.Failure) {
	if f := codec.NoOwnHeaders(s.Msg.Header, s.Subject.Verb.String()); f != nil {
		return f
	}
	if s.object = bytes.TrimSpace(s.Msg.Data); len(s.object) == 0 {
		return nil
	}
	s.item, s.object, f = w.ReadScheduleItem(s.Subject.Queue, s.object)
	return f
}

func (s *showSchedule) find(v *view) error {
	if len(s.object) > 0 {
		times, err := v.schedules.Preview(v.reader, v.queue, s.Subject.Schedule, s.object, s.item, protocol.ScheduleTimesShown)
		if err != nil {
			return noSchedule(&s.Request, err)
		}
		return s.answerJSON(protocol.ScheduleTimes{Times: times})
	}
	found, times, err := v.schedules.Get(v.reader, v.queue, s.Subject.Schedule, protocol.ScheduleTimesShown)
	if err != nil {
		return noSchedule(&s.Request, err)
	}
	return s.answerJSON(shownSchedule(&found, times))
}

func shownSchedule(s *schedule.Schedule, times []time.Time) protocol.Schedule {
	shown := codec.Schedule(s, false)
	shown.Times = times
	return shown
}

// noSchedule turns the error of a missing queue or schedule into the answer.
func noSchedule(r *request.Request, err error) error {
	if err == schedule.ErrNone {
		r.Failure = failure.NoSchedule(r.Subject.Queue, r.Subject.Schedule)
		return nil
	}
	return unlessUnknown(r, err)
}

func makeAdminSchedule(v subjects.Verb) work {
	if v == subjects.AdminScheduleRun {
		return new(runSchedule)
	}
	return new(adminSchedule)
}

// adminSchedule changes a schedule, or shows it when the body is empty.
type adminSchedule struct {
	definition
	object  []byte
	item    *schedule.Item
	fromNow bool
	limit   *codec.Limit
	dropped int64 // times that the change had pass
}

// grows refuses a schedule that is new, or whose item becomes larger, where there is no room for that.
func (a *adminSchedule) grows(at *changing) error {
	before, _, err := at.schedules.Get(at.tx, at.queue, a.Subject.Schedule, 0)
	isNew := err == schedule.ErrNone || err == fdbpq.ErrNoQueue
	if err != nil && !isNew {
		return err
	}
	more := 0
	if a.item != nil {
		more = len(a.item.Headers) + len(a.item.Payload) - len(before.Item.Headers) - len(before.Item.Payload)
	}
	if isNew {
		more += fdbpq.DefinitionBytes
	}
	if more > 0 {
		a.fits(at, more)
	}
	return nil
}

func (a *adminSchedule) Read(w *codec.Wire) (f *failure.Failure) {
	if f := codec.NoOwnHeaders(a.Msg.Header, a.Subject.Verb.String()); f != nil {
		return f
	}
	a.object, a.limit = bytes.TrimSpace(a.Msg.Data), &w.Limit
	switch {
	case a.Subject.Verb == subjects.AdminSchedule:
		a.item, a.object, f = w.ReadScheduleItem(a.Subject.Queue, a.object)
		return f
	case a.Subject.Verb == subjects.AdminScheduleResume:
		return codec.ReadOptions(a.Msg, a.Subject.Verb.String(), "from", func(name string, value any) (known bool, f *failure.Failure) {
			if known = name == "from"; known {
				var from string
				if from, f = codec.ReadString(name, value); f == nil && from != protocol.ResumeFromNow {
					f = failure.Newf(400, "from is %s: expected %s", failure.Quote(from), protocol.ResumeFromNow)
				}
				a.fromNow = true
			}
			return known, f
		})
	}
	return codec.NoOptions(a.Msg, a.Subject.Verb.String())
}

func (a *adminSchedule) apply(at *changing) ([]fdbpq.Event, error) {
	a.Failure = nil
	var answer any
	var s schedule.Schedule
	var err error
	name := a.Subject.Schedule
	switch a.Subject.Verb {
	case subjects.AdminSchedulePause:
		s, err = at.schedules.Pause(at.tx, at.queue, name)
	case subjects.AdminScheduleResume:
		s, err = at.schedules.Resume(at.tx, at.queue, name, a.fromNow)
	case subjects.AdminScheduleDelete:
		answer, err = protocol.ScheduleNamed{Queue: subjects.Own(at.queue.Name()), Name: name}, at.schedules.Delete(at.tx, at.queue, name)
	default:
		if len(a.object) > 0 {
			if err := a.grows(at); err != nil || a.Failure != nil {
				return nil, err
			}
			s, err = at.schedules.Set(at.tx, at.queue, name, a.object, a.item)
		} else {
			s, _, err = at.schedules.Get(at.tx.Snapshot(), at.queue, name, 0)
		}
	}
	a.dropped = s.Dropped
	if err == schedule.ErrNone {
		return nil, noSchedule(&a.Request, err)
	}
	if answer != nil {
		return nil, a.did(answer, err)
	}
	shown := shownSchedule(&s, nil)
	if err = a.did(shown, err); len(a.body) > a.limit.MaxPayload() {
		shown.Item = nil // the change is made, whatever its answer has room for
		err = a.did(shown, err)
	}
	return nil, err
}

// Act leaves out the change, which may have the payload of the item.
func (a *adminSchedule) Act() (done bool, details []any) {
	return a.Subject.Verb != subjects.AdminSchedule || len(a.object) > 0, nil
}

func (a *adminSchedule) count(t *request.Tally) { t[request.ScheduleMissed] += a.dropped }

// runSchedule pushes the item of a schedule now.
type runSchedule struct {
	change
	msgID  string
	size   int // of the item
	pushed fdbpq.Pushed
}

func (r *runSchedule) Act() (done bool, details []any) { return true, nil }

// expects is how much a push of the largest item costs.
func (r *runSchedule) expects() int { return 1 + schedule.MaxItem/request.OwedBytes }

func (r *runSchedule) Read(*codec.Wire) (f *failure.Failure) {
	if r.msgID, f = codec.ReadRun(r.Msg, r.Subject.Verb.String()); f != nil {
		return f
	}
	return nil
}

func (r *runSchedule) apply(at *changing) ([]fdbpq.Event, error) {
	r.Failure = nil
	pushed, err := at.schedules.Push(at.tx, at.queue, r.Subject.Schedule, r.msgID, func(bytes int) error {
		r.size = bytes
		return at.room(1, bytes)
	})
	switch {
	case err != nil:
		return nil, noSchedule(&r.Request, err)
	case pushed.Err != nil:
		r.Failure = failure.Explain(pushed.Err)
	default:
		r.pushed = pushed
		r.body = codec.AppendPubAck(r.body[:0], at.queue.Name(), &pushed)
	}
	return pushed.Events, nil
}

func (r *runSchedule) count(tally *request.Tally) {
	switch {
	case r.Failure != nil:
	case r.pushed.Duplicate:
		tally[request.Duplicates]++
	default:
		tally[request.Pushed]++
	}
}

func (r *runSchedule) answer(re *request.Responder) {
	r.Share.Owe(1, r.size)
	if !r.pushed.Duplicate {
		re.Stats.Moved(r.Subject.Queue, request.FlowIn, 1)
	}
	r.change.answer(re)
}

// fired counts the firings of schedules and their cost, and announces missed times and a clock that was set.
func fired(re *request.Responder, all *tenants.Tenants) func(schedule.Fired) {
	return func(f schedule.Fired) {
		for queue, n := range f.Queues {
			charge(all, queue, int(n.Fired+n.Overlapped), int(n.Bytes))
			re.Stats.Moved(queue, request.FlowIn, int(n.Fired))
			re.Stats.Queues.Count(queue, &request.Tally{request.Pushed: n.Fired, request.ScheduleFired: n.Fired,
				request.ScheduleMissed: n.Missed, request.ScheduleOverlapped: n.Overlapped})
		}
		for i := range f.Missed {
			re.Events.Schedule(&f.Missed[i])
		}
		re.Stats.Fired(f.Lateness, f.Offset)
		if f.Clock != 0 {
			by := f.Clock.Round(time.Millisecond)
			re.Log.Warn("set the clock of schedules to this machine's", "by", by)
			re.Events.Clock(by)
		}
	}
}
