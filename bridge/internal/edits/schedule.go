package edits

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func Schedule(v subjects.Verb) desk.Work {
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
func (a *adminSchedule) grows(at *desk.ChangeTx) error {
	before, _, err := at.Schedules.Get(at.Tx, at.Queue, a.Subject.Schedule, 0)
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

func (a *adminSchedule) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	var answer any
	var s schedule.Schedule
	var err error
	name := a.Subject.Schedule
	switch a.Subject.Verb {
	case subjects.AdminSchedulePause:
		s, err = at.Schedules.Pause(at.Tx, at.Queue, name)
	case subjects.AdminScheduleResume:
		s, err = at.Schedules.Resume(at.Tx, at.Queue, name, a.fromNow)
	case subjects.AdminScheduleDelete:
		answer, err = protocol.ScheduleNamed{Queue: subjects.Own(at.Queue.Name()), Name: name}, at.Schedules.Delete(at.Tx, at.Queue, name)
	default:
		if len(a.object) > 0 {
			if err := a.grows(at); err != nil || a.Failure != nil {
				return nil, err
			}
			s, err = at.Schedules.Set(at.Tx, at.Queue, name, a.object, a.item)
		} else {
			s, _, err = at.Schedules.Get(at.Tx.Snapshot(), at.Queue, name, 0)
		}
	}
	a.dropped = s.Dropped
	if err == schedule.ErrNone {
		return nil, desk.AnswerNoSchedule(&a.Request, err)
	}
	if answer != nil {
		return nil, a.did(answer, err)
	}
	shown := codec.Schedule(&s, false)
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

func (a *adminSchedule) Tally(t *request.Tally) {
	if a.Failure == nil {
		t[request.ScheduleMissed] += a.dropped
	}
}
