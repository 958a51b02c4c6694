package bridge

import (
	"bytes"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
)

// noBody refuses a body that would be ignored.
func noBody(r *request.Request) *failure.Failure {
	if len(bytes.TrimSpace(r.Msg.Data)) > 0 {
		return failure.Newf(400, "%s has the body %s: expected none", r.Subject.Verb, failure.Quote(string(r.Msg.Data)))
	}
	return nil
}

// noOwnHeaders refuses PQ- headers of a request that defines none.
func noOwnHeaders(header nats.Header, what string) *failure.Failure {
	for key := range header {
		if strings.HasPrefix(key, protocol.HeaderPrefix) {
			return failure.Newf(400, "header %s is none of %s: expected no %s header", failure.Quote(key), what, protocol.HeaderPrefix)
		}
	}
	return nil
}

// noOptions refuses a body and PQ- headers of a request without options.
func noOptions(r *request.Request) *failure.Failure {
	if f := noOwnHeaders(r.Msg.Header, r.Subject.Verb.String()); f != nil {
		return f
	}
	return noBody(r)
}
