package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// result tells what became of an item. With a wait it may tell that later.
func result(in *input) (*answer, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.Result, ID: in.values["id"]}, nil)
	if why != nil {
		return nil, why
	}
	if why := in.setHeader(m, "wait", protocol.HeaderWait); why != nil {
		return nil, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	e := &protocol.ItemResult{Queue: in.values["queue"], ID: in.values["id"]}
	if err := e.ReadHeaders(reply.Header.Get); err != nil {
		return nil, refusef(protocol.CodeInternal, "an answer that cannot be read: %s", err)
	}
	e.SetBody(reply.Data)
	return answerJSON(e)
}
