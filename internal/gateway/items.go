package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func list(in *input) (*answer, *refusal) {
	ask := protocol.ListRequest{State: protocol.State(in.get("state")), After: in.get("after"), Key: in.get("key"), Holder: in.get("holder")}
	var limit, preview *int64
	for name, to := range map[string]**int64{"limit": &limit, "preview": &preview, "min": &ask.Min, "max": &ask.Max} {
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
	if preview != nil {
		if *preview < 1 || *preview > protocol.MaxPreview {
			return nil, refusef(protocol.CodeBadRequest, "preview is %d: expected 1 to %d", *preview, protocol.MaxPreview)
		}
		ask.Preview = int(*preview)
	}
	for name, to := range map[string]*bool{"bodies": &ask.Bodies, "attempts": &ask.Attempts} {
		var why *refusal
		if *to, why = in.flag(name); why != nil {
			return nil, why
		}
	}
	return in.passJSON(subjects.Subject{Verb: subjects.List}, ask)
}

func get(in *input) (*answer, *refusal) {
	var ask protocol.GetRequest
	for name, to := range map[string]*bool{"attempts": &ask.Attempts, "explain": &ask.Explain} {
		var why *refusal
		if *to, why = in.flag(name); why != nil {
			return nil, why
		}
	}
	var body []byte
	if ask != (protocol.GetRequest{}) {
		var why *refusal
		if body, why = marshal(ask); why != nil {
			return nil, why
		}
	}
	m, why := in.message(subjects.Subject{Verb: subjects.Get, ID: in.values["id"]}, body)
	if why != nil {
		return nil, why
	}
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	i, why := readItem(in.values["queue"], reply)
	if why != nil {
		return nil, why
	}
	return answerJSON(i)
}
