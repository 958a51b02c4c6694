package gateway

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parameter of an operation, perhaps a reference to one.
type parameter struct {
	Ref  string `yaml:"$ref"`
	Name string
	In   string
}

// The description and the routes say the same: paths, methods, names, parameters, bodies.
func TestOpenAPI(t *testing.T) {
	t.Parallel()
	type operation struct {
		ID         string `yaml:"operationId"`
		Summary    string
		Parameters []parameter
		Body       map[string]any `yaml:"requestBody"`
		Responses  map[string]any
	}
	var described struct {
		Paths map[string]struct {
			Parameters               []parameter
			Get, Post, Patch, Delete *operation
		}
		Components struct {
			Parameters map[string]parameter
			Responses  map[string]any
			Schemas    map[string]any
		}
	}
	if err := yaml.Unmarshal(openAPI, &described); err != nil {
		t.Fatal(err)
	}
	named := func(all []parameter, in string) (names []string) {
		for _, p := range all {
			if p.Ref != "" {
				p = described.Components.Parameters[strings.TrimPrefix(p.Ref, "#/components/parameters/")]
			}
			if p.In == in {
				names = append(names, p.Name)
			}
		}
		return slices.Sorted(slices.Values(names))
	}
	seen, routes := make(map[string]bool), newRoutes()
	for path, methods := range described.Paths {
		for method, o := range map[string]*operation{"GET": methods.Get, "POST": methods.Post, "PATCH": methods.Patch, "DELETE": methods.Delete} {
			if o == nil {
				continue
			}
			at := slices.IndexFunc(routes, func(r *route) bool { return r.path == path && r.method == method })
			if at < 0 {
				t.Errorf("%s %s is described and is no route", method, path)
				continue
			}
			r := routes[at]
			seen[method+" "+path] = true
			if o.ID != r.name || o.Summary == "" || o.Responses["200"] == nil || o.Responses["default"] == nil {
				t.Errorf("%s %s: operation %q without summary or answers, expected %q", method, path, o.ID, r.name)
			}
			if got, want := named(o.Parameters, "query"), slices.Sorted(slices.Values(r.query)); !slices.Equal(got, want) {
				t.Errorf("%s %s: parameters %v, expected %v", method, path, got, want)
			}
			var inPath []string
			for part := range strings.SplitSeq(path, "/") {
				if name, is := strings.CutPrefix(part, "{"); is {
					inPath = append(inPath, strings.TrimSuffix(name, "}"))
				}
			}
			if got := named(methods.Parameters, "path"); !slices.Equal(got, slices.Sorted(slices.Values(inPath))) {
				t.Errorf("%s: parameters of the path %v, expected %v", path, got, inPath)
			}
			if hasBody := o.Body != nil; hasBody != (r.body != bodyNone) {
				t.Errorf("%s %s: has a body: %t", method, path, hasBody)
			}
		}
	}
	for _, r := range routes {
		if !seen[r.method+" "+r.path] {
			t.Errorf("%s %s is not described", r.method, r.path)
		}
		if r.changes != (r.method != "GET" && r.name != "previewSchedule") {
			t.Errorf("%s %s changes something: %t", r.method, r.path, r.changes)
		}
	}
	known := slices.Collect(maps.Keys(described.Components.Responses))
	for line := range strings.Lines(string(openAPI)) {
		if _, name, is := strings.Cut(line, `"#/components/responses/`); is {
			if name, _, _ = strings.Cut(name, `"`); !slices.Contains(known, name) {
				t.Errorf("there is no response %s", name)
			}
		}
		for _, ref := range strings.Split(line, `"#/components/schemas/`)[1:] {
			if name, _, _ := strings.Cut(ref, `"`); described.Components.Schemas[name] == nil {
				t.Errorf("there is no schema %s", name)
			}
		}
	}
}
