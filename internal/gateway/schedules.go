package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func schedules(in *input) (*answer, *refusal) {
	limit, why := in.limit(protocol.MaxSchedulesPage)
	if why != nil {
		return nil, why
	}
	return in.passJSON(subjects.Subject{Verb: subjects.Schedules}, protocol.SchedulesRequest{After: in.get("after"), Limit: limit})
}

// ofSchedule is the subject of a request about the schedule in the path.
func (in *input) ofSchedule(v subjects.Verb) subjects.Subject {
	return subjects.Subject{Verb: v, Schedule: in.values["schedule"]}
}

func schedule(in *input) (*answer, *refusal) { return in.pass(in.ofSchedule(subjects.Schedule), nil) }

func setSchedule(in *input) (*answer, *refusal) {
	change, why := in.fields("the fields to change")
	if why != nil {
		return nil, why
	}
	return in.pass(in.ofSchedule(subjects.AdminSchedule), change)
}

// previewSchedule shows the times that a schedule would have.
func previewSchedule(in *input) (*answer, *refusal) {
	change, why := in.fields("the fields that the schedule would have")
	if why != nil {
		return nil, why
	}
	return in.pass(in.ofSchedule(subjects.Schedule), change)
}

func deleteSchedule(in *input) (*answer, *refusal) {
	return in.pass(in.ofSchedule(subjects.AdminScheduleDelete), nil)
}

func pauseSchedule(in *input) (*answer, *refusal) {
	return in.pass(in.ofSchedule(subjects.AdminSchedulePause), nil)
}

func resumeSchedule(in *input) (*answer, *refusal) {
	s := in.ofSchedule(subjects.AdminScheduleResume)
	if from := in.get("from"); from != "" {
		return in.passJSON(s, protocol.ScheduleResume{From: from})
	}
	return in.pass(s, nil)
}

// runSchedule pushes the item of a schedule now.
func runSchedule(in *input) (*answer, *refusal) {
	m, why := in.message(in.ofSchedule(subjects.AdminScheduleRun), nil)
	if why == nil {
		why = in.setHeader(m, "msg_id", protocol.HeaderMsgID)
	}
	if why != nil {
		return nil, why
	}
	return in.relay(m)
}
