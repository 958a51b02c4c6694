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

// definition is a change of something lasting, such as the settings of a key.
type definition struct{ change }

// changedBy is the act of a request that changes a definition unless its body is empty.
func (d *definition) changedBy(body []byte) (done bool, details []any) {
	if body = bytes.TrimSpace(body); len(body) == 0 {
		return false, nil
	}
	return true, []any{"change", fdbpq.ReasonText(string(body))}
}

// fits reports whether a transaction has room for this many bytes, and otherwise refuses the request.
func (d *definition) fits(at *desk.ChangeTx, bytes int) bool {
	if err := at.Admit(0, bytes); err != nil {
		d.Failure = failure.Explain(err)
	}
	return d.Failure == nil
}

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

// runSchedule pushes the item of a schedule now.
type runSchedule struct {
	change
	msgID  string
	size   int // of the item
	pushed fdbpq.Pushed
}

func (r *runSchedule) Act() (done bool, details []any) { return true, nil }

// Expects is how much a push of the largest item costs.
func (r *runSchedule) Expects() int { return 1 + schedule.MaxItem/request.OwedBytes }

func (r *runSchedule) Read(*codec.Wire) (f *failure.Failure) {
	if r.msgID, f = codec.ReadRun(r.Msg, r.Subject.Verb.String()); f != nil {
		return f
	}
	return nil
}

func (r *runSchedule) Apply(at *desk.ChangeTx) ([]fdbpq.Event, error) {
	pushed, err := at.Schedules.Push(at.Tx, at.Queue, r.Subject.Schedule, r.msgID, func(bytes int) error {
		r.size = bytes
		return at.Admit(1, bytes)
	})
	switch {
	case err != nil:
		return nil, desk.AnswerNoSchedule(&r.Request, err)
	case pushed.Err != nil:
		r.Failure = failure.Explain(pushed.Err)
	default:
		r.pushed = pushed
		r.body = codec.AppendPubAck(r.body[:0], at.Queue.Name(), &pushed)
	}
	return pushed.Events, nil
}

func (r *runSchedule) Tally(tally *request.Tally) {
	switch {
	case r.Failure != nil:
	case r.pushed.Duplicate:
		tally[request.Duplicates]++
	default:
		tally[request.Pushed]++
	}
}

func (r *runSchedule) Answer(re *request.Responder) {
	r.Share.Owe(1, r.size)
	if !r.pushed.Duplicate {
		re.Stats.Moved(r.Subject.Queue, request.FlowIn, 1)
	}
	r.change.Answer(re)
}
