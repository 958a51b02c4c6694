package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func keys(in *input) (*answer, *refusal) {
	limit, why := in.limit(protocol.MaxKeysPage)
	if why != nil {
		return nil, why
	}
	return in.passJSON(subjects.Subject{Verb: subjects.Keys}, protocol.KeysRequest{After: in.get("after"), Limit: limit})
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
