package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// needs say what the body of a request has to have that becomes the body of the operation; "": it may be missing.
var needs = map[string]string{
	"set key":        "the settings to change",
	"schedule times": "the fields that the schedule would have",
	"resume source":  "",
	"bulk remove":    page, "bulk move": page, "bulk revoke": page, "bulk requeue": page,
}

const (
	changes = "the fields to change" // what others need
	page    = "where, and what else the operation has"
)

// passing returns the route of an operation that the gateway passes on: what it has to know is in the row. The path has the
// arguments of its subject, and the body of the HTTP request is the body of its request. Without such a body, parameters are
// its fields.
func passing(o *protocol.Op) *route {
	method, path, _ := strings.Cut(o.HTTP, " ")
	r := &route{name: routeName(o), method: method, path: path, changes: o.Again != protocol.Reads, operator: strings.HasPrefix(o.Subject, "_sys.cluster.")}
	if strings.Contains(o.Subject, ".<priority>") {
		r.query = append(r.query, "priority")
	}
	var read func(*input) ([]byte, *refusal)
	switch {
	case o.BodyOverHTTP():
		r.body = kindOf(o.Body)
		read = bodyOf(o)
	case o.Body != nil:
		fields := slices.Collect(reflect.TypeOf(o.Body).Fields())
		for _, f := range fields {
			r.query = append(r.query, parameterOf(f))
		}
		read = func(in *input) ([]byte, *refusal) { return in.parameters(fields) }
	default:
		read = func(*input) ([]byte, *refusal) { return nil, nil }
	}
	verb := verbOf(o)
	r.serve = func(in *input) (*answer, *refusal) {
		s, why := in.about(verb)
		if why != nil {
			return nil, why
		}
		body, why := read(in)
		if why != nil {
			return nil, why
		}
		return in.pass(s, body)
	}
	return r
}

// routeName is the operationId.
func routeName(o *protocol.Op) string {
	if o.Name == "schedule times" {
		return "previewSchedule"
	}
	words := strings.Fields(o.Name)
	for i := range words[1:] {
		words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
	}
	return strings.Join(words, "")
}

func kindOf(body any) bodyKind {
	switch body.(type) {
	case protocol.ScheduleChange:
		return bodySchedule
	case protocol.BulkRequest, protocol.SourceResume:
		return bodyText
	}
	return bodyDefinition
}

// bodyOf reads the body of a request.
func bodyOf(o *protocol.Op) func(*input) ([]byte, *refusal) {
	what, listed := needs[o.Name]
	switch {
	case !listed:
		what = changes
	case what == "":
		return func(in *input) ([]byte, *refusal) { return bytes.TrimSpace(in.body), nil }
	}
	return func(in *input) ([]byte, *refusal) { return in.fields(what) }
}

// verbOf is the verb of an operation's subjects.
func verbOf(o *protocol.Op) subjects.Verb {
	g, err := subjects.New("pq")
	if err != nil {
		panic(err) // a constant
	}
	form := strings.NewReplacer("<queue>", "q", "<priority>", "1", "<id>", "x", "<key>", "k", "<name>", "n").Replace(o.Subjects()[0])
	s, err := g.Parse("pq." + form)
	if err != nil {
		panic(fmt.Sprintf("operation %s: %s", o.Name, err)) // TestSubjects of package protocol parses all
	}
	return s.Verb
}

// about is the subject of a request with what the path names.
func (in *input) about(v subjects.Verb) (subjects.Subject, *refusal) {
	s := subjects.Subject{Verb: v, ID: in.values["id"], Key: in.values["key"], Schedule: in.values["schedule"], Source: in.values["source"], Link: in.values["link"]}
	if slices.Contains(in.route.query, "priority") {
		var err error
		if s.Priority, err = subjects.ParsePriority(in.get("priority")); err != nil {
			return s, badRequest(err)
		}
		s.HasPriority = true
	}
	return s, nil
}

// parameters makes a body of parameters. Without any it is empty.
func (in *input) parameters(fields []reflect.StructField) ([]byte, *refusal) {
	given := make(map[string]any)
	for _, f := range fields {
		name := parameterOf(f)
		if !in.query.Has(name) {
			continue
		}
		var why *refusal
		if given[name], why = in.value(name, f); why != nil {
			return nil, why
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	return marshal(given)
}

// value reads a parameter for a field. What is no number and no flag is a text: the bridge says what is wrong with it.
func (in *input) value(name string, f reflect.StructField) (any, *refusal) {
	if most, is := strings.CutPrefix(f.Tag.Get("pq"), "page="); is { // a page has so many at most
		n, err := strconv.ParseInt(most, 10, 64)
		if err != nil {
			panic(fmt.Sprintf("the mark of %s: %s", f.Name, err)) // a constant
		}
		return just(in.limit(n))
	}
	of := f.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	switch of {
	case reflect.TypeFor[bool]():
		return just(in.flag(name))
	case reflect.TypeFor[int](), reflect.TypeFor[int64]():
		return just(in.integer(name))
	}
	return in.get(name), nil
}

func just[T any](value T, why *refusal) (any, *refusal) { return value, why }

// parameterOf is the name of a field in JSON.
func parameterOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// runSchedule pushes the item of a schedule now.
func runSchedule(in *input) (*answer, *refusal) {
	s, why := in.about(subjects.AdminScheduleRun)
	if why != nil {
		return nil, why
	}
	m, why := in.message(s, nil)
	if why == nil {
		why = in.setHeader(m, "msg_id", protocol.HeaderMsgID)
	}
	if why != nil {
		return nil, why
	}
	return in.relay(m)
}

// access shows the rights of the caller.
func access(in *input) (*answer, *refusal) {
	may := "read"
	if in.changes {
		may = "admin"
	}
	return answerJSON(struct {
		Access string `json:"access"`
		Prefix string `json:"prefix"`
		Tenant string `json:"tenant,omitempty"`
	}{may, in.caller.grammar.Prefix(), in.caller.tenant})
}

// bridges lists the bridges of the prefix, as service discovery knows them.
func bridges(in *input) (*answer, *refusal) {
	answers, why := in.gateway.wire.Load().all(in.ctx, &nats.Msg{Subject: "$SRV.PING.pq"})
	if why != nil {
		return nil, why
	}
	type bridge struct {
		ID       string            `json:"id"`
		Version  string            `json:"version"`
		Started  time.Time         `json:"started"`
		Metadata map[string]string `json:"metadata"`
	}
	found := []bridge{}
	for _, m := range answers {
		var b bridge
		if err := json.Unmarshal(m.Data, &b); err != nil || b.Metadata["prefix"] != in.caller.grammar.Prefix() {
			continue // a bridge of another prefix, or none
		}
		found = append(found, b)
	}
	return answerJSON(map[string]any{"bridges": found})
}

// cluster returns the view that each pqd of a replicated store has of all nodes.
func cluster(in *input) (*answer, *refusal) {
	m, why := in.message(subjects.Subject{Verb: subjects.SysClusterStatus}, nil)
	if why != nil {
		return nil, why
	}
	answers, why := in.gateway.wire.Load().all(in.ctx, m)
	if why != nil {
		return nil, why
	}
	nodes := []json.RawMessage{}
	for _, m := range answers {
		if refused(m) == nil && json.Valid(m.Data) {
			nodes = append(nodes, m.Data)
		}
	}
	return answerJSON(map[string]any{"nodes": nodes})
}
