package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func keys(in *input) (*answer, *refusal) {
	ask := protocol.KeysRequest{After: in.get("after")}
	limit, why := in.integer("limit")
	if why != nil {
		return nil, why
	}
	if limit != nil {
		if *limit < 1 {
			return nil, refusef(protocol.CodeBadRequest, "limit is %d: expected 1 or more", *limit)
		}
		ask.Limit = int(min(*limit, protocol.MaxKeysPage))
	}
	return in.passJSON(subjects.Subject{Verb: subjects.Keys}, ask)
}

func key(in *input) (*answer, *refusal) {
	return in.pass(subjects.Subject{Verb: subjects.Key, Key: in.values["key"]}, nil)
}

func setKey(in *input) (*answer, *refusal) {
	settings, why := in.fields("the settings to change")
	if why != nil {
		return nil, why
	}
	return in.pass(subjects.Subject{Verb: subjects.AdminKey, Key: in.values["key"]}, settings)
}
