package gateway

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/internal/lanes"
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

// itemFields are the fields of an item in a push of many.
var itemFields = append([]string{"payload", "payload_base64", "headers"}, slices.DeleteFunc(slices.Clone(pushParameters), func(name string) bool { return name == "header" })...)

// pushMany pushes items in one message: all of them, or none. The body has a JSON object for
// each, in an array or one after another.
func pushMany(in *input) (*answer, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.Push}, make([]byte, 0, len(in.body)))
	if why != nil {
		return nil, why
	}
	n, why := readObjects(in.body, func(object string) (why *refusal) {
		m.Data, why = appendItem(m.Data, object)
		return why
	})
	if why != nil {
		return nil, why
	}
	m.Header.Set(protocol.HeaderBundle, strconv.Itoa(n))
	if why := in.setHeader(m, "msg_id", protocol.HeaderMsgID); why != nil {
		return nil, why
	}
	addTrace(m.Header, in.header)
	return in.relay(m)
}

// readObjects reads the items of a body, up to the bound of a request, and returns their number.
func readObjects(body []byte, read func(object string) *refusal) (n int, why *refusal) {
	ofItem := func(why *refusal) *refusal {
		item := n
		why.Description = "item " + strconv.Itoa(item) + ": " + why.Description
		why.Item = &item
		return why
	}
	broken := func(err error) *refusal {
		return ofItem(refusef(protocol.CodeBadRequest, "%s: expected a JSON object such as {\"payload\":\"x\"}, in an array or one a line", err))
	}
	d := json.NewDecoder(bytes.NewReader(body))
	array := bytes.HasPrefix(bytes.TrimLeft(body, " \t\r\n"), []byte("["))
	if array {
		if _, err := d.Token(); err != nil {
			return 0, broken(err)
		}
	}
	var text json.RawMessage
	for ; !array || d.More(); n++ {
		err := d.Decode(&text)
		switch {
		case errors.Is(err, io.EOF) && !array:
			return someItems(n)
		case err == nil && text[0] != '{':
			err = fmt.Errorf("found %.40s", text)
		}
		if err != nil {
			return 0, broken(err)
		}
		if n == protocol.MaxBundle {
			return 0, refusef(protocol.CodeTooLarge, "there are more items than %d, which are allowed", protocol.MaxBundle)
		}
		if why := read(string(text)); why != nil {
			return 0, ofItem(why)
		}
		if err := jsontext.Check(text); err != nil {
			return 0, broken(err)
		}
	}
	if _, err := d.Token(); err != nil {
		return 0, broken(err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return 0, refusef(protocol.CodeBadRequest, "there is more behind the array: expected nothing")
	}
	return someItems(n)
}

func someItems(n int) (int, *refusal) {
	if n == 0 {
		return 0, refusef(protocol.CodeBadRequest, "the body has no items: expected 1 to %d JSON objects, in an array or one a line", protocol.MaxBundle)
	}
	return n, nil
}

// itemReader reads an item. It stops at the first mistake: the rest may be long.
type itemReader struct {
	lines         []byte
	payload       []byte
	text, encoded bool // how the payload was given
	wrong         *refusal
}

// appendItem appends the frame of an item.
func appendItem(b []byte, object string) ([]byte, *refusal) {
	var r itemReader
	jsontext.Fields(object, func(name, value string) bool {
		r.wrong = r.field(name, value)
		return r.wrong == nil
	})
	if r.wrong == nil && r.text && r.encoded {
		r.wrong = refusef(protocol.CodeBadRequest, "payload together with payload_base64: expected one of them")
	}
	if r.wrong != nil {
		return nil, r.wrong
	}
	return protocol.AppendFrame(b, r.lines, r.payload), nil
}

func (r *itemReader) field(name, value string) *refusal {
	switch name {
	case "payload":
		text, is := jsontext.Text(value)
		if !is {
			return refusef(protocol.CodeBadRequest, "payload is %.40s: expected a string", value)
		}
		r.payload, r.text = []byte(text), true
	case "payload_base64":
		text, is := jsontext.Text(value)
		payload, err := base64.StdEncoding.DecodeString(text)
		if !is || err != nil {
			return refusef(protocol.CodeBadRequest, "payload_base64 is %.40s: expected a string of base64", value)
		}
		r.payload, r.encoded = payload, true
	case "headers":
		return r.headers(value)
	default:
		header, text, why := readField(name, value)
		if why != nil {
			return why
		}
		r.line(header, text)
	}
	return nil
}

func (r *itemReader) line(name, value string) {
	r.lines = append(append(append(append(r.lines, name...), ": "...), value...), '\n')
}

// headers reads the headers that stay with an item: each is a string, or a list of them.
func (r *itemReader) headers(value string) (why *refusal) {
	is := jsontext.Fields(value, func(name, value string) bool {
		why = r.header(name, value)
		return why == nil
	})
	if !is {
		return refusef(protocol.CodeBadRequest, "headers are %.40s: expected an object such as {\"Season\":\"autumn\"}", value)
	}
	return why
}

func (r *itemReader) header(name, value string) (why *refusal) {
	if why := checkHeaderName(name, itemInstead); why != nil {
		return why
	}
	one := func(value string) bool {
		text, is := jsontext.Text(value)
		if !is {
			why = refusef(protocol.CodeBadRequest, "header %s is %.40s: expected a string, or a list of strings", name, value)
		} else if why = checkHeaderLine(name, text); why == nil {
			r.line(name, strings.TrimSpace(text))
		}
		return why == nil
	}
	if !jsontext.Values(value, one) {
		one(value)
	}
	return why
}

var itemInstead = "a field of the item: " + strings.Join(itemFields, ", ")

// readField reads a field that is a header of the protocol.
func readField(field, value string) (header, text string, why *refusal) {
	at := slices.IndexFunc(protocol.PushHeaders, func(h protocol.PushHeader) bool { return h.Word == field })
	if at < 0 {
		return "", "", refusef(protocol.CodeBadRequest, "field %.80q: expected some of %s", field, strings.Join(itemFields, ", "))
	}
	header = protocol.PushHeaders[at].Name
	if _, is := protocol.PushHeaders[at].Type.(int64); is {
		var n *int64
		if json.Unmarshal([]byte(value), &n) != nil || n == nil {
			return "", "", refusef(protocol.CodeBadRequest, "%s is %.40s: expected an integer", field, value)
		}
		return header, strconv.FormatInt(*n, 10), nil
	}
	s, is := jsontext.Text(value)
	if !is {
		return "", "", refusef(protocol.CodeBadRequest, "%s is %.40s: expected a string", field, value)
	}
	return header, s, oneLine(field, s)
}

// pushes are sent together, each on its own in the bundle. Pushes with several priorities go to the subject without
// a priority, once a push of the gateway's NATS user to that subject has succeeded: the user may lack the right.
var pushes = kind{load: loadPushes, unload: unloadPushes}

// pushTogether sends a push, with others if there are any.
func (in *input) pushTogether(m *nats.Msg) (*nats.Msg, *refusal) {
	w := in.gateway.wire.Load()
	if w == nil {
		return nil, starting()
	}
	plain, why := in.message(subjects.Subject{Verb: subjects.Push}, nil)
	if why != nil {
		return nil, why
	}
	_, handsOver := m.Header[protocol.HeaderSettle]
	b := &boarder{ctx: in.ctx, msg: m, priority: in.get("priority"), size: m.Size(), single: handsOver}
	own := lanes.Key{Queue: plain.Subject, Subject: m.Subject}
	key := own
	if may, _ := w.pushes.rights.Of(plain.Subject); may {
		key.Subject = plain.Subject
	}
	reply, why := w.pushes.ask(own, key, b)
	return reply, in.named(why)
}

// loadPushes writes a bundle. Pushes with one subject keep it, so the bundle needs the same right as its items.
func loadPushes(to string, all []*boarder) *nats.Msg {
	subject, size := all[0].msg.Subject, 0
	for _, b := range all {
		if b.msg.Subject != all[0].msg.Subject {
			subject = to
		}
		size += b.size
	}
	m := &nats.Msg{Subject: subject, Data: make([]byte, 0, size), Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(all))}, protocol.HeaderEach: {"true"}}}
	var headers []byte
	for _, b := range all {
		headers = headers[:0]
		if b.priority != "" && b.msg.Subject != subject {
			headers = append(append(append(headers, protocol.HeaderPriority+": "...), b.priority...), '\n')
		}
		headers = protocol.AppendHeaders(headers, b.msg.Header)
		m.Data = protocol.AppendFrame(m.Data, headers, b.msg.Data)
	}
	return m
}

// unloadPushes reads the answer to a bundle of pushes.
func unloadPushes(answer *nats.Msg, n int) []*landing {
	var results struct {
		Stream string
		Items  []json.RawMessage
	}
	if err := json.Unmarshal(answer.Data, &results); err != nil || len(results.Items) != n {
		return nil
	}
	each := make([]*landing, n)
	for i, result := range results.Items {
		var told struct{ Error *protocol.Error }
		if bytes.HasPrefix(result, []byte(`{"error":`)) && json.Unmarshal(result, &told) == nil && told.Error != nil {
			each[i] = &landing{why: &refusal{Error: *told.Error}}
			continue
		}
		head := `{"type":"` + protocol.PushResponseType + `","stream":"` + results.Stream + `",`
		each[i] = &landing{reply: &nats.Msg{Data: append([]byte(head), result[1:]...)}}
	}
	return each
}
