package gateway

import (
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

func links(in *input) (*answer, *refusal) {
	limit, why := in.limit(protocol.MaxLinksPage)
	if why != nil {
		return nil, why
	}
	return in.passJSON(subjects.Subject{Verb: subjects.Links}, protocol.LinksRequest{After: in.get("after"), Limit: limit})
}

// passLink passes a request about the link in the path.
func passLink(v subjects.Verb) func(in *input) (*answer, *refusal) {
	return func(in *input) (*answer, *refusal) {
		return in.pass(subjects.Subject{Verb: v, Link: in.values["link"]}, nil)
	}
}

func setLink(in *input) (*answer, *refusal) {
	body, why := in.fields("the fields to change")
	if why != nil {
		return nil, why
	}
	return in.pass(subjects.Subject{Verb: subjects.AdminLink, Link: in.values["link"]}, body)
}

func deleteLink(in *input) (*answer, *refusal) {
	force, why := in.flag("force")
	if why != nil {
		return nil, why
	}
	return in.passJSON(subjects.Subject{Verb: subjects.AdminLinkDelete, Link: in.values["link"]}, protocol.LinkDelete{Force: force})
}
