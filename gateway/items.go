package gateway

import (
	"encoding/json"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func list(in *input) (*answer, *refusal) {
	ask := protocol.ListRequest{State: protocol.State(in.get("state")), After: in.get("after"), Key: in.get("key")}
	var limit *int64
	for name, to := range map[string]**int64{"limit": &limit, "min": &ask.Min, "max": &ask.Max} {
		var why *refusal
		if *to, why = in.integer(name); why != nil {
			return nil, why
		}
	}
	if limit != nil {
		if ask.Limit = int(*limit); ask.Limit < 1 {
			return nil, refusef(protocol.CodeBadRequest, "limit is %d: expected 1 or more", *limit)
		}
	}
	switch in.get("bodies") {
	case "true":
		ask.Bodies = true
	case "", "false":
	default:
		return nil, refusef(protocol.CodeBadRequest, "bodies is %q: expected true or false", in.get("bodies"))
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, refusef(protocol.CodeInternal, "%s", err)
	}
	return in.pass(subjects.Subject{Verb: subjects.List}, body)
}

func get(in *input) (*answer, *refusal) {
	i, why := in.item()
	if why != nil {
		return nil, why
	}
	return answerJSON(i)
}

// item gets the item that the path names.
func (in *input) item() (*item, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.Get, ID: in.values["id"]}, nil)
	if why != nil {
		return nil, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	return readItem(in.values["queue"], reply)
}

func remove(in *input) (*answer, *refusal) {
	return in.pass(subjects.Subject{Verb: subjects.Remove, ID: in.values["id"]}, nil)
}

func move(in *input) (*answer, *refusal) {
	priority, err := subjects.ParsePriority(in.get("priority"))
	if err != nil {
		return nil, badRequest(err)
	}
	return in.pass(subjects.Subject{Verb: subjects.Move, ID: in.values["id"], Priority: priority, HasPriority: true}, nil)
}

// requeue pushes a dead letter to its queue again, or an item to another queue, and removes
// it here. The push has an id, so a repetition after a lost answer pushes nothing twice.
func requeue(in *input) (*answer, *refusal) {
	i, why := in.item()
	if why != nil {
		return nil, why
	}
	to := in.get("to")
	switch {
	case to == "" && i.Dead == nil:
		return nil, refusef(protocol.CodeBadRequest, "item %s is no dead letter: expected the parameter to, with the name of a queue", i.ID)
	case to == "":
		to = i.Dead.Origin
	}
	if to == in.values["queue"] {
		return nil, refusef(protocol.CodeBadRequest, "the item is in queue %s already: expected another one", to)
	}
	m, why := in.messageTo(subjects.Subject{Queue: to, Verb: subjects.Push, Priority: i.Priority, HasPriority: true}, i.Bytes())
	if why != nil {
		return nil, why
	}
	for name, values := range i.AllHeaders() {
		m.Header[name] = values
	}
	m.Header.Set(protocol.HeaderMsgID, "requeue-"+i.ID)
	if i.Key != "" {
		m.Header.Set(protocol.HeaderKey, i.Key)
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	if _, why := in.pass(subjects.Subject{Verb: subjects.Remove, ID: i.ID}, nil); why != nil && why.Code != protocol.CodeNotFound {
		return nil, why
	}
	return &answer{body: reply.Data}, nil
}
