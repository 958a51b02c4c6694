package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// runSchedule pushes the item of a schedule now.
func runSchedule(in *input) (*answer, *refusal) {
	s, why := in.about(subjects.AdminScheduleRun)
	if why != nil {
		return nil, why
	}
	m, why := in.message(s, nil)
	if why == nil {
		why = in.setHeader(m, "msg_id", protocol.HeaderMsgID)
	}
	if why != nil {
		return nil, why
	}
	return in.relay(m)
}
