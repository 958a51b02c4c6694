package gateway

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// refusal is an error of the protocol. Its code is the status of the answer.
type refusal struct {
	protocol.Error
	allow      string // the methods that a path has instead
	retryAfter string // seconds
}

func refusef(code int, format string, args ...any) *refusal {
	text := fmt.Sprintf(format, args...)
	return &refusal{Error: protocol.NewErrorResponse(protocol.ErrorResponseType, code, text).Error}
}

func badRequest(err error) *refusal {
	if errors.Is(err, subjects.ErrTooLong) {
		return refusef(protocol.CodeForbidden, "%s", err)
	}
	return refusef(protocol.CodeBadRequest, "%s", err)
}

// inParameters replaces the names of headers by the names of parameters. Of two names with the same beginning the
// longer one comes first.
var inParameters = func() *strings.Replacer {
	names := map[string]string{protocol.HeaderAck: "ack", protocol.HeaderBundle: "the number of items"}
	for i := range protocol.PushHeaders {
		names[protocol.PushHeaders[i].Name] = protocol.PushHeaders[i].Word
	}
	for _, h := range takeHeaders {
		names[h.header] = h.parameter
	}
	var pairs []string
	for _, header := range slices.SortedFunc(maps.Keys(names), func(a, b string) int { return cmp.Compare(len(b), len(a)) }) {
		pairs = append(pairs, "header "+header, names[header], header, names[header])
	}
	return strings.NewReplacer(pairs...)
}()

// named rewrites a refusal with the caller's names: parameters, and headers only for a schedule's item.
func (in *input) named(why *refusal) *refusal {
	if why != nil && in.route.body != bodySchedule {
		why.Description = inParameters.Replace(why.Description)
	}
	return why
}

// refused returns the error that a bridge, or the NATS server, has answered, or nil.
func refused(m *nats.Msg) *refusal {
	if code, err := strconv.Atoi(m.Header.Get(micro.ErrorCodeHeader)); err == nil {
		r := refusef(code, "%s", m.Header.Get(micro.ErrorHeader))
		var answer protocol.ErrorResponse
		if json.Unmarshal(m.Data, &answer) == nil {
			r.Item = answer.Error.Item
		}
		r.Reason, r.Progress = protocol.Reason(m.Header.Get(protocol.HeaderReason)), m.Header.Get(protocol.HeaderProgress)
		return r
	}
	if protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data) {
		return refusef(protocol.CodeUnavailable, "no bridge is there, nothing was done: try again")
	}
	return nil
}

func (f *refusal) answer() *answer {
	body, err := protocol.Marshal(protocol.ErrorResponse{Type: protocol.ErrorResponseType, Error: f.Error})
	if err != nil {
		body = nil // strings and numbers have a form in JSON
	}
	return &answer{code: f.Code, body: body}
}

// Refuse answers a request that does not reach a gateway in the form of a gateway's refusal.
func Refuse(w http.ResponseWriter, code int, text string) {
	setAnswerHeaders(w)
	refusef(code, "%s", text).write(w)
}

func (f *refusal) write(w http.ResponseWriter) {
	for name, value := range map[string]string{"Allow": f.allow, "Retry-After": f.retryAfter} {
		if value != "" {
			w.Header().Set(name, value)
		}
	}
	_ = f.answer().write(w) // the client went away
}

// answer is the answer to a request.
type answer struct {
	code   int // 0: 200
	body   []byte
	unsent func() // called when the client did not get the answer; may be nil
}

func (a *answer) status() int {
	if a.code == 0 {
		return http.StatusOK
	}
	return a.code
}

func (a *answer) write(w http.ResponseWriter) error {
	w.Header().Set("Content-Length", strconv.Itoa(len(a.body)+1))
	w.WriteHeader(a.status())
	_, err := w.Write(append(a.body[:len(a.body):len(a.body)], '\n'))
	return err
}

// answerJSON answers in JSON.
func answerJSON(body any) (*answer, *refusal) {
	text, why := marshal(body)
	if why != nil {
		return nil, why
	}
	return &answer{body: text}, nil
}
