package reads

import (
	"bytes"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
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

func Schedule(subjects.Verb) desk.Work { return new(showSchedule) }

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

func (s *showSchedule) Find(v *View) error {
	if len(s.object) > 0 {
		times, err := v.Schedules.Preview(v.Reader, v.Queue, s.Subject.Schedule, s.object, s.item, protocol.ScheduleTimesShown)
		if err != nil {
			return desk.AnswerNoSchedule(&s.Request, err)
		}
		return s.answerJSON(protocol.ScheduleTimes{Times: times})
	}
	found, times, err := v.Schedules.Get(v.Reader, v.Queue, s.Subject.Schedule, protocol.ScheduleTimesShown)
	if err != nil {
		return desk.AnswerNoSchedule(&s.Request, err)
	}
	shown := codec.Schedule(&found, false)
	shown.Times = times
	return s.answerJSON(shown)
}
