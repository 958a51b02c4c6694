package gateway

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// input is a request, read for its route.
type input struct {
	gateway *Gateway
	caller  *caller
	ctx     context.Context
	from    source
	address string // of the client, for the log of the bridge
	changes bool   // the client may change something
	route   *route
	values  map[string]string // of the path
	query   url.Values
	header  http.Header
	body    []byte
}

// readQuery reads the parameters, and refuses parameters that the route does not have: a parameter that would be ignored
// is probably a mistake.
func readQuery(route *route, r *http.Request) (url.Values, *refusal) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(err)
	}
	for name, values := range query {
		switch {
		case !slices.Contains(route.query, name):
			return nil, refusef(protocol.CodeBadRequest, "parameter %q: expected %s", name, route.parameters())
		case len(values) > 1 && !repeatable[name]:
			return nil, refusef(protocol.CodeBadRequest, "parameter %s occurs %d times: expected once", name, len(values))
		case slices.Contains(values, "") && !mayBeEmpty[name]:
			return nil, refusef(protocol.CodeBadRequest, "parameter %s is empty: expected a value, or no such parameter", name)
		}
	}
	for name := range r.Header {
		if strings.HasPrefix(name, http.CanonicalHeaderKey(protocol.HeaderPrefix)) || name == http.CanonicalHeaderKey(protocol.HeaderMsgID) {
			return nil, refusef(protocol.CodeBadRequest, "header %s: expected parameters in the URL: %s", name, route.parameters())
		}
	}
	return query, nil
}

// Parameters with a meaning of their own.
var (
	repeatable = map[string]bool{"header": true, "path": true}
	mayBeEmpty = map[string]bool{"after": true}
)

func (in *input) get(name string) string { return in.query.Get(name) }

// wait is how long the request may wait for an item.
func (in *input) wait() time.Duration {
	if in.get("wait") == "" {
		return 0
	}
	wait, err := time.ParseDuration(in.get("wait"))
	if err != nil {
		return 0 // the bridge says so
	}
	return min(wait, protocol.MaxWait)
}

// answerLimit is how long a request that does not wait may take. A bridge answers within about four seconds.
const answerLimit = 10 * time.Second

func (in *input) patience() time.Duration { return in.gateway.answers + max(0, in.wait()) }

// message returns a request of the protocol, about the queue in the path if it has one.
func (in *input) message(s subjects.Subject, body []byte) (*nats.Msg, *refusal) {
	s.Queue = in.values["queue"]
	if s.Verb > subjects.Event {
		s.Queue = ""
	}
	return in.messageTo(s, body)
}

func (in *input) messageTo(s subjects.Subject, body []byte) (*nats.Msg, *refusal) {
	subject, err := in.caller.grammar.Build(s)
	if err != nil {
		return nil, badRequest(err)
	}
	m := &nats.Msg{Subject: subject, Header: make(nats.Header), Data: body}
	if s.Verb.Administers() {
		m.Header.Set(protocol.HeaderForwarded, in.address)
	}
	return m, nil
}

// addressOf is the list of addresses from which the request came, as proxies in front of pqd name them; the last is
// the one that sent it to pqd.
func addressOf(r *http.Request) string {
	last, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		last = r.RemoteAddr // of something else than TCP
	}
	told := strings.Join(r.Header.Values(protocol.HeaderForwarded), ", ")
	if told == "" {
		return last
	}
	return told[:min(len(told), mostForwarded)] + ", " + last
}

// mostForwarded bounds the addresses that a proxy names.
const mostForwarded = 120 // bytes

// ask sends a request of the protocol and returns its answer.
func (in *input) ask(m *nats.Msg) (*nats.Msg, *refusal) {
	reply, why := in.gateway.wire.Load().ask(in.ctx, m, in.route.changes)
	return reply, in.named(why)
}

// pass sends a request, and answers with the JSON of its answer.
func (in *input) pass(s subjects.Subject, body []byte) (*answer, *refusal) {
	m, why := in.message(s, body)
	if why != nil {
		return nil, why
	}
	return in.relay(m)
}

// relay sends a message, and answers with the JSON that comes back.
func (in *input) relay(m *nats.Msg) (*answer, *refusal) {
	reply, why := in.ask(m)
	if why != nil {
		return nil, why
	}
	return &answer{body: reply.Data}, nil
}

// passJSON sends a request with a body in JSON, and answers with the JSON of its answer.
func (in *input) passJSON(s subjects.Subject, body any) (*answer, *refusal) {
	text, why := marshal(body)
	if why != nil {
		return nil, why
	}
	return in.pass(s, text)
}

func marshal(body any) ([]byte, *refusal) {
	text, err := protocol.Marshal(body)
	if err != nil {
		return nil, refusef(protocol.CodeInternal, "%s", err)
	}
	return text, nil
}

// fields is the body of a request that needs one.
func (in *input) fields(what string) ([]byte, *refusal) {
	if len(bytes.TrimSpace(in.body)) == 0 {
		return nil, refusef(protocol.CodeBadRequest, "the body is empty: expected a JSON object with %s", what)
	}
	return in.body, nil
}

// setHeader makes a parameter a header of the protocol. Headers have one line, and no spaces
// around it: two ids or keys would otherwise become one.
func (in *input) setHeader(m *nats.Msg, parameter, header string) *refusal {
	if !in.query.Has(parameter) {
		return nil
	}
	value := in.get(parameter)
	m.Header.Set(header, value)
	return oneLine(parameter, value)
}

func oneLine(name, value string) *refusal {
	if strings.ContainsAny(value, "\r\n") || strings.Trim(value, " \t") != value {
		return refusef(protocol.CodeBadRequest, "%s is %q: expected one line without spaces at its ends", name, value)
	}
	return nil
}

// flag reads a parameter that is true or false; false if it is not there.
func (in *input) flag(name string) (bool, *refusal) {
	switch in.get(name) {
	case "true":
		return true, nil
	case "", "false":
		return false, nil
	}
	return false, refusef(protocol.CodeBadRequest, "%s is %q: expected true or false", name, in.get(name))
}

// integer reads a parameter; nil if it is not there.
func (in *input) integer(name string) (*int64, *refusal) {
	if !in.query.Has(name) {
		return nil, nil
	}
	n, err := strconv.ParseInt(in.get(name), 10, 64)
	if err != nil {
		return nil, refusef(protocol.CodeBadRequest, "%s is %q: expected an integer", name, in.get(name))
	}
	return &n, nil
}

// limit is how many entries a page has, at most most; 0 without the parameter.
func (in *input) limit(most int64) (int, *refusal) {
	limit, why := in.integer("limit")
	switch {
	case why != nil || limit == nil:
		return 0, why
	case *limit < 1:
		return 0, refusef(protocol.CodeBadRequest, "limit is %d: expected 1 or more", *limit)
	}
	return int(min(*limit, most)), nil
}
