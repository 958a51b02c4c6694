package gateway

import (
	"encoding/json"

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
	body, err := json.Marshal(ask)
	if err != nil {
		return nil, refusef(protocol.CodeInternal, "%s", err)
	}
	return in.pass(subjects.Subject{Verb: subjects.Keys}, body)
}

func key(in *input) (*answer, *refusal) {
	return in.pass(subjects.Subject{Verb: subjects.Key, Key: in.values["key"]}, nil)
}

func setKey(in *input) (*answer, *refusal) {
	if len(in.body) == 0 {
		return nil, refusef(protocol.CodeBadRequest, "the body is empty: expected a JSON object with the settings to change")
	}
	return in.pass(subjects.Subject{Verb: subjects.AdminKey, Key: in.values["key"]}, in.body)
}
