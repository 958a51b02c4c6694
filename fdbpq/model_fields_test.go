package fdbpq_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// notModelled are the fields of the configuration that the model need not know, and why.
var notModelled = map[string]string{
	"lease":  "the operations name the leases of their pops, and package bridge reads the field",
	"strict": "the model takes operations one after another, so that each pop is strict",
}

// The random tests set each field of the configuration, and the model reads it, or the field is listed.
func TestModelKnowsEachField(t *testing.T) {
	t.Parallel()
	set, read := fieldsSet(t), fieldsRead(t)
	for field := range reflect.TypeFor[fdbpq.Config]().Fields() {
		name := fieldName(field)
		if !set[name] {
			t.Errorf("the random tests never set the field %s: expected a case in configuring of fdbpq/generate_test.go", name)
		}
		switch why, listed := notModelled[name]; {
		case !read[field.Name] && why == "":
			t.Errorf("the model of the random tests does not read the field %s: expected config.%s in a file fdbpq/model_*_test.go, or the field in notModelled of fdbpq/model_fields_test.go, with the reason",
				name, field.Name)
		case read[field.Name] && listed:
			t.Errorf("the model reads the field %s, and notModelled lists it", name)
		}
	}
	for name := range notModelled {
		if !set[name] {
			t.Errorf("notModelled lists %s, which is no field", name)
		}
	}
}

// fieldsSet are the fields that random configurations set.
func fieldsSet(t *testing.T) map[string]bool {
	t.Helper()
	const rounds = 5000 // each field comes once in 150
	set := make(map[string]bool)
	w := new(world)
	rng := rand.New(rand.NewPCG(1, 2))
	for range rounds {
		o := w.configuring(rng)
		if o.expect(newModel(), moment{}, outcome{}).Err != "" {
			continue // it is to be refused
		}
		_, object, _ := strings.Cut(o.name, "{")
		var fields map[string]any
		if err := json.Unmarshal([]byte("{"+object), &fields); err != nil {
			t.Fatal(err)
		}
		for name := range fields {
			set[name] = true
		}
	}
	return set
}

// fieldsRead are the fields that the model reads from the configuration of a queue, by their names in Go.
func fieldsRead(t *testing.T) map[string]bool {
	t.Helper()
	files, err := filepath.Glob("model_*_test.go")
	if err != nil || len(files) < 2 {
		t.Fatalf("the files of the model: %v, %v", files, err)
	}
	read := make(map[string]bool)
	for _, file := range files {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if field, is := n.(*ast.SelectorExpr); is {
				if of, is := field.X.(*ast.SelectorExpr); is && of.Sel.Name == "config" {
					read[field.Sel.Name] = true
				}
			}
			return true
		})
	}
	return read
}
