package gateway

import (
	"net/http"
	"net/textproto"
	"slices"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// pushParameters are the parameters of a push: its headers of the protocol, and the headers of its item.
var pushParameters = func() []string {
	var all []string
	for i := range protocol.PushHeaders {
		all = append(all, protocol.PushHeaders[i].Word)
	}
	return slices.Insert(all, 1, "header")
}()

// traceHeaders are headers of HTTP that go with the item, so that a trace goes on.
var traceHeaders = []string{"traceparent", "tracestate"}

func push(in *input) (*answer, *refusal) {
	s := subjects.Subject{Verb: subjects.Push}
	if in.query.Has("priority") {
		var err error
		if s.Priority, err = subjects.ParsePriority(in.get("priority")); err != nil {
			return nil, badRequest(err)
		}
		s.HasPriority = true
	}
	m, why := in.message(s, in.body)
	if why != nil {
		return nil, why
	}
	for i := range protocol.PushHeaders {
		h := &protocol.PushHeaders[i]
		if h.Name == protocol.HeaderPriority {
			continue // the subject has it
		}
		if why := in.setHeader(m, h.Word, h.Name); why != nil {
			return nil, why
		}
	}
	if why := addItemHeaders(m.Header, in.query["header"]); why != nil {
		return nil, why
	}
	addTrace(m.Header, in.header)
	reply, why := in.pushTogether(m)
	if why != nil {
		return nil, why
	}
	return &answer{body: reply.Data}, nil
}

// addTrace continues the trace of a request in a message.
func addTrace(to nats.Header, from http.Header) {
	for _, name := range traceHeaders {
		if value := from.Get(name); value != "" && to[name] == nil {
			to.Set(name, value)
		}
	}
}

// addItemHeaders adds headers of the form "name:value" that are to stay with the item.
func addItemHeaders(to nats.Header, lines []string) *refusal {
	if len(lines) > protocol.MaxHeaderLines {
		return refusef(protocol.CodeTooLarge, "there are %d headers: allowed are %d", len(lines), protocol.MaxHeaderLines)
	}
	for _, line := range lines {
		name, value, is := strings.Cut(line, ":")
		if !is || !isHeaderName(name) {
			return refusef(protocol.CodeBadRequest, "header %q: expected <name>:<value>, such as header=Season:autumn", line)
		}
		if why := checkHeaderName(name, pushInstead); why != nil {
			return why
		}
		if why := checkHeaderLine(name, value); why != nil {
			return why
		}
		to.Add(name, strings.TrimSpace(value))
	}
	return nil
}

var pushInstead = "parameters in the URL: " + strings.Join(pushParameters, ", ")

// checkHeaderName refuses a header that an item cannot have, or that has a parameter instead.
func checkHeaderName(name, instead string) *refusal {
	switch {
	case !isHeaderName(name):
		return refusef(protocol.CodeBadRequest, "header name %.80q: expected printable ASCII such as Season", name)
	case isReserved(name):
		return refusef(protocol.CodeBadRequest, "header %.80s belongs to the protocol: expected %s", name, instead)
	}
	return nil
}

// checkHeaderLine refuses a value that is not one line.
func checkHeaderLine(name, value string) *refusal {
	if strings.ContainsAny(value, "\r\n") {
		return refusef(protocol.CodeBadRequest, "header %.80s has more than one line: expected one", name)
	}
	return nil
}

// isHeaderName reports whether an item may have a header of this name.
func isHeaderName(name string) bool {
	for i := range len(name) {
		if c := name[i]; c <= ' ' || c > '~' || strings.IndexByte(`"()/,:;<=>?@[\]{}`, c) >= 0 {
			return false
		}
	}
	return name != ""
}

// isReserved reports whether bridge or server would act on a header.
func isReserved(name string) bool {
	name = textproto.CanonicalMIMEHeaderKey(name)
	return strings.HasPrefix(name, "Pq-") || strings.HasPrefix(name, "Nats-") || slices.Contains([]string{"Status", "Description"}, name)
}
