package gateway

import (
	"bytes"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func sources(in *input) (*answer, *refusal) {
	limit, why := in.limit(protocol.MaxSourcesPage)
	if why != nil {
		return nil, why
	}
	return in.passJSON(subjects.Subject{Verb: subjects.Sources}, protocol.SourcesRequest{After: in.get("after"), Limit: limit})
}

// passSource passes the body of a request about the source in the path.
func passSource(v subjects.Verb) func(in *input) (*answer, *refusal) {
	return func(in *input) (*answer, *refusal) {
		return in.pass(subjects.Subject{Verb: v, Source: in.values["source"]}, bytes.TrimSpace(in.body))
	}
}

func setSource(in *input) (*answer, *refusal) {
	if _, why := in.fields("the fields to change"); why != nil {
		return nil, why
	}
	return passSource(subjects.AdminSource)(in)
}
