package client

import (
	"context"
	"encoding/json"
	"iter"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Schedule pushes its item to its queue at each time of a calendar.
type Schedule = protocol.Schedule

// ScheduleItem is the item that a schedule pushes.
type ScheduleItem = protocol.ScheduleItem

// ScheduleChange has the fields of a schedule to change. Nil fields stay as they are; Drop names bounds to drop,
// start or end.
type ScheduleChange = protocol.ScheduleChange

// SetSchedule changes a schedule, and makes it and the queue if necessary. It returns the whole schedule.
func (q *Queue) SetSchedule(ctx context.Context, name string, change ScheduleChange) (s Schedule, err error) {
	body, err := json.Marshal(change)
	if err != nil {
		return Schedule{}, err
	}
	err = q.ask(ctx, "set schedule", subjects.Subject{Verb: subjects.AdminSchedule, Schedule: name}, body, &s)
	return s, err
}

// Schedule returns a schedule with its next times.
func (q *Queue) Schedule(ctx context.Context, name string) (s Schedule, err error) {
	err = q.ask(ctx, "schedule", subjects.Subject{Verb: subjects.Schedule, Schedule: name}, nil, &s)
	return s, err
}

// ScheduleTimes returns the next times that a schedule would have after a change. It need not
// exist.
func (q *Queue) ScheduleTimes(ctx context.Context, name string, change ScheduleChange) ([]time.Time, error) {
	body, err := json.Marshal(change)
	if err != nil {
		return nil, err
	}
	var answer protocol.ScheduleTimes
	err = q.ask(ctx, "schedule times", subjects.Subject{Verb: subjects.Schedule, Schedule: name}, body, &answer)
	return answer.Times, err
}

// Schedules returns the schedules behind a name, without their items; "" begins with the first. An error ends the
// sequence.
func (q *Queue) Schedules(ctx context.Context, after string) iter.Seq2[Schedule, error] {
	return func(yield func(Schedule, error) bool) {
		for {
			body, err := json.Marshal(protocol.SchedulesRequest{After: after})
			var page protocol.SchedulesPage
			if err == nil {
				err = q.ask(ctx, "schedules", subjects.Subject{Verb: subjects.Schedules}, body, &page)
			}
			if err != nil {
				yield(Schedule{}, err)
				return
			}
			for _, s := range page.Schedules {
				if !yield(s, nil) {
					return
				}
			}
			if after = page.Next; after == "" {
				return
			}
		}
	}
}

// PauseSchedule stops a schedule. Times that pass until it is resumed are no misses.
func (q *Queue) PauseSchedule(ctx context.Context, name string) (s Schedule, err error) {
	err = q.ask(ctx, "pause schedule", subjects.Subject{Verb: subjects.AdminSchedulePause, Schedule: name}, nil, &s)
	return s, err
}

// ResumeSchedule ends a pause. With fromNow the schedule begins anew, and fires times again that have fired, as
// they may have under a clock that was ahead.
func (q *Queue) ResumeSchedule(ctx context.Context, name string, fromNow bool) (s Schedule, err error) {
	var body []byte
	if fromNow {
		if body, err = json.Marshal(protocol.ScheduleResume{From: protocol.ResumeFromNow}); err != nil {
			return Schedule{}, err
		}
	}
	err = q.ask(ctx, "resume schedule", subjects.Subject{Verb: subjects.AdminScheduleResume, Schedule: name}, body, &s)
	return s, err
}

// DeleteSchedule removes a schedule. The items that it has pushed stay.
func (q *Queue) DeleteSchedule(ctx context.Context, name string) error {
	return q.ask(ctx, "delete schedule", subjects.Subject{Verb: subjects.AdminScheduleDelete, Schedule: name}, nil, nil)
}

// RunSchedule pushes the item of a schedule now. With a message id that is not "" a repetition
// pushes nothing.
func (q *Queue) RunSchedule(ctx context.Context, name, msgID string) (*Pushed, error) {
	subject, err := q.subject(subjects.Subject{Verb: subjects.AdminScheduleRun, Schedule: name})
	if err != nil {
		return nil, err
	}
	run := &call{op: "run schedule", queue: q.name, subject: subject}
	if msgID != "" {
		run.header, run.repeatable = nats.Header{protocol.HeaderMsgID: {msgID}}, true
	}
	var answer protocol.PushResponse
	if err := q.client.ask(ctx, run, &answer); err != nil {
		return nil, err
	}
	return &Pushed{ID: answer.ID, Seq: uint64(answer.Seq), Priority: answer.Priority, Duplicate: answer.Duplicate, Evicted: answer.Evicted}, nil
}
