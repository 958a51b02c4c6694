package gateway

import (
	"bytes"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// passed is what the gateway has to know of an operation to pass it on: the rest is in its row. The path has the arguments of
// its subject, and the body of the HTTP request is the body of its request. Without such a body, parameters are its fields.
type passed struct {
	name     string   // of the route, where it is not that of the operation
	body     bodyKind // of the HTTP request
	needs    string   // what the body has to have; "": it may be missing
	pageSize int64    // the most that a page has; "limit" asks for less
}

// passes are those of which it has to know something.
var passes = map[string]passed{
	"keys":           {pageSize: protocol.MaxKeysPage},
	"schedules":      {pageSize: protocol.MaxSchedulesPage},
	"sources":        {pageSize: protocol.MaxSourcesPage},
	"links":          {pageSize: protocol.MaxLinksPage},
	"configure":      {body: bodyDefinition, needs: "the fields to change"},
	"set key":        {body: bodyDefinition, needs: "the settings to change"},
	"set schedule":   {body: bodySchedule, needs: "the fields to change"},
	"schedule times": {body: bodySchedule, needs: "the fields that the schedule would have", name: "previewSchedule"},
	"set source":     {body: bodyDefinition, needs: "the fields to change"},
	"resume source":  {body: bodyText},
	"set link":       {body: bodyDefinition, needs: "the fields to change"},
	"bulk remove":    {body: bodyText, needs: page},
	"bulk move":      {body: bodyText, needs: page},
	"bulk revoke":    {body: bodyText, needs: page},
	"bulk requeue":   {body: bodyText, needs: page},
}

// page is what the body of a bulk operation has.
const page = "where, and what else the operation has"

// passing returns the route of an operation that it passes on.
func passing(o *protocol.Op) *route {
	how, method, path := passes[o.Name], "", ""
	if how.name == "" {
		words := strings.Fields(o.Name)
		for i := range words[1:] {
			words[i+1] = strings.ToUpper(words[i+1][:1]) + words[i+1][1:]
		}
		how.name = strings.Join(words, "")
	}
	method, path, _ = strings.Cut(o.HTTP, " ")
	r := &route{name: how.name, method: method, path: path, body: how.body, changes: o.Again != protocol.Reads, operator: strings.HasPrefix(o.Subject, "_sys.cluster.")}
	if strings.Contains(o.Subject, ".<priority>") {
		r.query = append(r.query, "priority")
	}
	var fields []reflect.StructField
	if how.body == bodyNone && o.Body != nil {
		fields = slices.Collect(reflect.TypeOf(o.Body).Fields())
		for _, f := range fields {
			r.query = append(r.query, parameterOf(f))
		}
	}
	verb := verbOf(o)
	r.serve = func(in *input) (*answer, *refusal) {
		s, why := in.about(verb)
		if why != nil {
			return nil, why
		}
		body, why := in.passedBody(&how, fields)
		if why != nil {
			return nil, why
		}
		return in.pass(s, body)
	}
	return r
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

// passedBody is the body of a request: that of the HTTP request, or one with the parameters.
func (in *input) passedBody(how *passed, fields []reflect.StructField) ([]byte, *refusal) {
	switch {
	case how.needs != "":
		return in.fields(how.needs)
	case how.body != bodyNone:
		return bytes.TrimSpace(in.body), nil
	case fields == nil:
		return nil, nil
	}
	given := make(map[string]any)
	for _, f := range fields {
		name := parameterOf(f)
		if !in.query.Has(name) {
			continue
		}
		var why *refusal
		if given[name], why = in.value(name, f.Type, how); why != nil {
			return nil, why
		}
	}
	if len(given) == 0 {
		return nil, nil
	}
	return marshal(given)
}

// value reads a parameter for a field. What is no number and no flag is a text: the bridge says what is wrong with it.
func (in *input) value(name string, of reflect.Type, how *passed) (any, *refusal) {
	switch {
	case name == "limit" && how.pageSize > 0:
		return just(in.limit(how.pageSize))
	case of.Kind() == reflect.Bool:
		return just(in.flag(name))
	case of.Kind() == reflect.Int || of == reflect.TypeFor[int64]():
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
