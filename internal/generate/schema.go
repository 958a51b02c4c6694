package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pqbridge/pqbridge/protocol"
)

const (
	schemaFolder = "protocol/schemas"
	draft        = "https://json-schema.org/draft/2020-12/schema"
	titlePrefix  = "io.pq.v1."
)

// nullable are, by type, the fields of requests in which null drops a setting.
var nullable = map[string][]string{"KeyChange": {"limit", "rate", "weight", "paused", "cost_rate"}, "ScheduleChange": {"start", "end"}}

// known has the types whose JSON reflection does not find.
func known() map[reflect.Type]*jsonschema.Schema {
	return map[reflect.Type]*jsonschema.Schema{
		reflect.TypeFor[protocol.Duration](): {Type: "string", Examples: []any{"30s", "1h30m"}},
		reflect.TypeFor[protocol.Backoff](): {AnyOf: []*jsonschema.Schema{
			{Type: "string", Enum: []any{""}}, {Type: "object"}, {Type: "array", Items: &jsonschema.Schema{Type: "string"}},
		}},
		reflect.TypeFor[protocol.Most](): {AnyOf: []*jsonschema.Schema{
			{Type: "string", Enum: []any{""}}, {Type: "integer", Minimum: new(0.0)},
		}},
		reflect.TypeFor[time.Duration]():   {Type: "integer", Description: "nanoseconds"},
		reflect.TypeFor[time.Time]():       {Type: "string", Format: "date-time"},
		reflect.TypeFor[[]byte]():          {Type: "string", ContentEncoding: "base64"},
		reflect.TypeFor[json.RawMessage](): {},
	}
}

// How a document refers to the schema of a type.
func besideIt(name string) string     { return snake(name) + ".json" }
func inFolder(name string) string     { return "schemas/" + snake(name) + ".json" }
func within(name string) string       { return "#/$defs/" + snake(name) }
func inComponents(name string) string { return "#/components/schemas/" + name }

// schemas are the schemas of all types and of their changes, each with its description, by the names of the types.
func (ts *types) schemas(ref func(string) string) (all []member, err error) {
	for _, t := range ts.all() {
		s, err := ts.schema(t, ref)
		if err != nil {
			return nil, err
		}
		s.Description = ts.described(t)
		all = append(all, member{t.Name(), s})
		if ts.changes[t] {
			change, err := ts.change(t, ref)
			if err != nil {
				return nil, err
			}
			change.Description = describedChange(t)
			all = append(all, member{t.Name() + "Change", change})
		}
	}
	return all, nil
}

// files are the schemas, which refer to each other.
func (ts *types) files() (map[string][]byte, error) {
	all, err := ts.schemas(besideIt)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for _, m := range all {
		name := snake(m.name)
		if files[schemaFolder+"/"+name+".json"], err = document(titlePrefix+name, m.value.(*jsonschema.Schema)); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// bundled is one schema that defines all of them.
func (ts *types) bundled() ([]byte, error) {
	all, err := ts.schemas(within)
	if err != nil {
		return nil, err
	}
	for i := range all {
		all[i].name = snake(all[i].name)
	}
	return indented(object{{"$schema", draft}, {"title", "io.pq.v1"}, {"description", "All bodies of pqbridge's protocol."}, {"$defs", object(all)}})
}

func (ts *types) described(t reflect.Type) string { return plain(first(ts.said[t.Name()].text)) }

func describedChange(t reflect.Type) string {
	return fmt.Sprintf("The fields of a %s to change; what is missing stays as it is.", snake(t.Name()))
}

// schema describes a type, and refers to others.
func (ts *types) schema(t reflect.Type, ref func(string) string) (*jsonschema.Schema, error) {
	schemas := known()
	for _, other := range ts.all() {
		if other != t && !embeds(t, other) {
			schemas[other] = &jsonschema.Schema{Ref: ref(other.Name())}
		}
	}
	s, err := jsonschema.ForType(t, &jsonschema.ForOptions{TypeSchemas: schemas})
	if err != nil {
		return nil, err
	}
	for _, f := range reflect.VisibleFields(t) {
		in, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		p := s.Properties[in]
		if p == nil || f.Anonymous {
			continue
		}
		withoutNull(p, f.Type)
		ts.describe(p, t, f)
		if slices.Contains(nullable[t.Name()], in) {
			p.Types, p.Type = []string{p.Type, "null"}, ""
		}
	}
	if t == reflect.TypeFor[protocol.Config]() {
		for _, f := range ts.config {
			f.bound(s.Properties[f.name])
		}
	}
	if ts.told[t] {
		s.AdditionalProperties = nil // a later version may add fields
	}
	return s, nil
}

// change describes the change of a type: no field is required, and no other field is allowed.
func (ts *types) change(t reflect.Type, ref func(string) string) (*jsonschema.Schema, error) {
	s, err := ts.schema(t, ref)
	if err != nil {
		return nil, err
	}
	s.Required = nil
	s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	for _, p := range s.Properties {
		p.Default = nil
	}
	return s, nil
}

// describe adds the first paragraph of a field's comment.
func (ts *types) describe(p *jsonschema.Schema, t reflect.Type, f reflect.StructField) {
	of := t
	if n := len(f.Index); n > 1 { // of an embedded type
		of = t.FieldByIndex(f.Index[:n-1]).Type
	}
	text := strings.TrimSuffix(plain(first(ts.said[of.Name()+"."+f.Name].text)), ".")
	switch {
	case text == "":
	case p.Description != "":
		p.Description = text + "; " + p.Description
	default:
		p.Description = text
	}
}

// bound adds the bounds of a field's marks.
func (f *field) bound(p *jsonschema.Schema) {
	p.Description = strings.TrimSuffix(plain(f.doc), ".")
	p.Default = json.RawMessage(f.jsonDefault())
	for _, word := range f.words {
		p.Enum = append(p.Enum, word)
	}
	if f.isInt() && (f.notNegative || f.max != "") {
		p.Minimum = new(0.0)
	}
	if f.isInt() && f.max != "" {
		most, _ := strconv.ParseFloat(f.max, 64) // goValue has read it
		p.Maximum = &most
	}
	if f.isDuration() && f.max != "" {
		p.Description += "; up to " + f.max
	}
	if f.maxLen > 0 {
		p.MaxLength = new(f.maxLen)
	}
}

func embeds(t, other reflect.Type) bool {
	for f := range t.Fields() {
		if f.Anonymous && f.Type == other {
			return true
		}
	}
	return false
}

// withoutNull takes null out of a schema where Go has a pointer or a slice to leave the field out. In a list a pointer stands for null.
func withoutNull(s *jsonschema.Schema, t reflect.Type) {
	s.Types = slices.DeleteFunc(s.Types, func(name string) bool { return name == "null" })
	if len(s.Types) == 1 {
		s.Type = s.Types[0]
	}
	if len(s.Types) < 2 {
		s.Types = nil
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case s.Items != nil && t.Kind() == reflect.Slice && t.Elem().Kind() != reflect.Pointer:
		withoutNull(s.Items, t.Elem())
	case s.AdditionalProperties != nil && t.Kind() == reflect.Map:
		withoutNull(s.AdditionalProperties, t.Elem())
	}
}

// document is a schema as a file: its name and its description come first.
func document(title string, s *jsonschema.Schema) ([]byte, error) {
	all := object{{"$schema", draft}, {"title", title}, {"description", s.Description}}
	s.Description = ""
	text, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	var own object
	if err := own.read(text); err != nil {
		return nil, err
	}
	return indented(append(all, own...))
}
