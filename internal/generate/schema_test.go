package main

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/pqbridge/pqbridge/protocol"
)

// Each schema holds for a value of its type with all fields. One of a request refuses a further field, one of an answer lets it pass.
func TestSchemas(t *testing.T) {
	t.Parallel()
	ts := typesOf(t)
	files := filesOf(t, ts)
	for _, of := range ts.all() {
		s := resolved(t, files, snake(of.Name()))
		value := reflect.New(of).Elem()
		fill(value)
		var object map[string]any
		text, err := json.Marshal(value.Interface())
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(object); err != nil {
			t.Errorf("%s: %s: %v", of.Name(), text, err)
		}
		object["a_field_of_a_later_version"] = 1
		if err := s.Validate(object); (err == nil) != ts.told[of] {
			t.Errorf("%s with one more field: %v; part of an answer: %t", of.Name(), err, ts.told[of])
		}
	}
}

// A zero value of a field that a schema does not require is left out of answers, and all others are there. A mark such as omitempty
// at a time or a struct has no effect.
func TestZeroValuesAreLeftOut(t *testing.T) {
	t.Parallel()
	ts := typesOf(t)
	for _, of := range ts.all() {
		if !ts.told[of] {
			continue
		}
		s, err := ts.schema(of, besideIt)
		if err != nil {
			t.Fatal(err)
		}
		var object map[string]json.RawMessage
		text, err := json.Marshal(reflect.Zero(of).Interface())
		if err == nil {
			err = json.Unmarshal(text, &object)
		}
		if err != nil {
			t.Fatal(err)
		}
		for name := range s.Properties {
			switch required := slices.Contains(s.Required, name); {
			case object[name] != nil && !required:
				t.Errorf("an empty protocol.%s has %q as %s, though its field is marked to be left out: expected omitzero in its tag", of.Name(), name, object[name])
			case object[name] == nil && required:
				t.Errorf("an empty protocol.%s lacks %q, and the schema requires it", of.Name(), name)
			}
		}
	}
}

// What the pages say to be missing from answers is left out: a field of an answer with this name is marked.
func TestMissingFieldsAreMarked(t *testing.T) {
	t.Parallel()
	optional := make(map[string]bool)
	ts := typesOf(t)
	for of := range ts.told {
		for _, f := range reflect.VisibleFields(of) {
			if name, marks, _ := strings.Cut(f.Tag.Get("json"), ","); strings.Contains(marks, "omit") {
				optional[name] = true
			}
		}
	}
	pages, err := filepath.Glob(filepath.Join(root, "docs/protocol/*.md"))
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z_]+)`")
	missing := regexp.MustCompile("((?:`[a-z_]+`(?:, | and )?)+) (?:is|are) missing")
	leading := regexp.MustCompile("^- ((?:`[a-z_]+`(?:, )?)+):.*missing")
	found := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			said := missing.FindStringSubmatch(line)
			if said == nil {
				said = leading.FindStringSubmatch(line)
			}
			if said == nil {
				continue
			}
			for _, name := range named.FindAllStringSubmatch(said[1], -1) {
				if found++; !optional[name[1]] {
					t.Errorf("docs/protocol/%s says that %s may be missing, and no field of an answer with this name is left out: expected omitzero in package protocol", filepath.Base(page), name[1])
				}
			}
		}
	}
	if found < 15 {
		t.Errorf("the pages say it of %d fields: expected more", found)
	}
}

// The schema of a change of the configuration allows what may be, and refuses what is beyond the marks.
func TestSchemaOfAConfigChange(t *testing.T) {
	t.Parallel()
	s := resolved(t, filesOf(t, typesOf(t)), "config_change")
	for text, holds := range map[string]bool{
		`{}`:                              true,
		`{"lease":"30s","ties":"oldest"}`: true,
		`{"backoff":""}`:                  true,
		`{"backoff":{"delay":"1s"}}`:      true,
		`{"backoff":["1s","10s"]}`:        true,
		`{"backoff":5}`:                   false,
		`{"max_interruptions":""}`:        true,
		`{"max_interruptions":0}`:         true,
		`{"max_interruptions":-1}`:        false,
		`{"max_interruptions":"16"}`:      false,
		`{"lease":30}`:                    false,
		`{"lease":null}`:                  false,
		`{"ties":"random"}`:               false,
		`{"key_limit":1000}`:              true,
		`{"key_limit":1001}`:              false,
		`{"max_length":-1}`:               false,
		`{"priority":-1}`:                 true,
		`{"priority":1.5}`:                false,
		`{"leese":"30s"}`:                 false,
		`{"dead_letter":"` + strings.Repeat("a", 257) + `"}`: false,
	} {
		var object any
		if err := json.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		if err := s.Validate(object); (err == nil) != holds {
			t.Errorf("%s: %v, expected that it holds: %t", text, err, holds)
		}
	}
}

func typesOf(t *testing.T) *types {
	t.Helper()
	said, err := readComments(filepath.Join(root, "protocol"))
	if err != nil {
		t.Fatal(err)
	}
	config, err := configFields(said)
	if err != nil {
		t.Fatal(err)
	}
	return newTypes(said, config)
}

func filesOf(t *testing.T, ts *types) map[string][]byte {
	t.Helper()
	files, err := ts.files()
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// resolved is a schema as its file has it.
func resolved(t *testing.T, files map[string][]byte, name string) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(files[schemaFolder+"/"+name+".json"], &s); err != nil {
		t.Fatal(err)
	}
	if s.Title != titlePrefix+name || s.Schema != draft {
		t.Errorf("%s has the title %q and is a schema of %q", name, s.Title, s.Schema)
	}
	r, err := s.Resolve(&jsonschema.ResolveOptions{BaseURI: "file:///schemas/" + name + ".json", Loader: func(uri *url.URL) (*jsonschema.Schema, error) {
		text := files[schemaFolder+"/"+path.Base(uri.Path)]
		if text == nil {
			return nil, fmt.Errorf("there is no schema %s", uri)
		}
		var s jsonschema.Schema
		return &s, json.Unmarshal(text, &s)
	}})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// What a release publishes needs no other file, and says the same.
func TestBundle(t *testing.T) {
	t.Parallel()
	to := t.TempDir()
	if err := runBundle(root, to); err != nil {
		t.Fatal(err)
	}
	var api map[string]any
	if err := json.Unmarshal([]byte(read(t, filepath.Join(to, "asyncapi.json"))), &api); err != nil {
		t.Fatal(err)
	}
	refer(t, api, api, "")
	var s jsonschema.Schema
	if err := json.Unmarshal([]byte(read(t, filepath.Join(to, "schemas.json"))), &s); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Resolve(nil); err != nil {
		t.Error(err)
	}
	ts := typesOf(t)
	if want := len(filesOf(t, ts)); len(s.Defs) != want {
		t.Errorf("it defines %d schemas, expected %d", len(s.Defs), want)
	}
	if limit := s.Defs["key_settings"]; limit == nil || limit.Properties["limit"] == nil {
		t.Errorf("settings of a key are %v", limit)
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// fill gives each part of a value something that JSON shows.
func fill(v reflect.Value) {
	switch of := v.Addr().Interface().(type) {
	case *time.Time:
		*of = time.Date(2030, 1, 2, 15, 4, 5, 0, time.UTC)
		return
	case *json.RawMessage:
		*of = json.RawMessage(`"first"`)
		return
	case *protocol.Backoff:
		*of = `["1s"]`
		return
	case *protocol.Most:
		*of = "7"
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() {
				fill(v.Field(i))
			}
		}
		bounded(v)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		fill(one)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name"), one)
	case reflect.Interface:
		v.Set(reflect.ValueOf(any("text")))
	case reflect.String:
		v.SetString("text")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint8, reflect.Uint64:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(0.5)
	default:
		panic(fmt.Sprintf("no value of %s", v.Type()))
	}
}

// bounded gives a configuration words that it may have, and a change nothing to drop.
func bounded(v reflect.Value) {
	switch of := v.Addr().Interface().(type) {
	case *protocol.Config:
		of.Ties, of.Overflow = "oldest", "evict"
	case *protocol.KeyChange:
		of.Drop = []string{"limit"}
	case *protocol.ScheduleChange:
		of.Drop = []string{"start"}
	}
}
