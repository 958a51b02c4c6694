package main

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"unicode"

	"github.com/pqbridge/pqbridge/protocol"
)

// beside are types that programs read besides the answers and events of the tables.
var beside = []any{protocol.ErrorResponse{}, protocol.Item{}, protocol.ExportEnd{}, protocol.Queues{}}

// types are the types that become schemas.
type types struct {
	said    comments
	config  []field
	changes map[reflect.Type]bool // whose fields a request changes, as a type of its own
	asked   map[reflect.Type]bool // part of a request
	told    map[reflect.Type]bool // part of an answer, an event or something else that may grow
}

func newTypes(said comments, config []field) *types {
	ts := &types{said: said, config: config, changes: make(map[reflect.Type]bool), asked: make(map[reflect.Type]bool), told: make(map[reflect.Type]bool)}
	for _, o := range protocol.Ops {
		if c, is := o.Body.(protocol.Change); is {
			ts.changes[reflect.TypeOf(c.Of)] = true
		} else {
			ts.reach(reflect.TypeOf(o.Body), ts.asked)
		}
		ts.reach(reflect.TypeOf(o.Answer), ts.told)
	}
	for _, e := range protocol.Events {
		ts.reach(reflect.TypeOf(e.Body), ts.told)
	}
	ts.reach(reflect.TypeFor[protocol.Nack](), ts.asked)
	ts.reach(reflect.TypeFor[protocol.SourceValue](), ts.asked)
	for _, one := range beside {
		ts.reach(reflect.TypeOf(one), ts.told)
	}
	return ts
}

// reach adds a type of ours with all types that it contains.
func (ts *types) reach(t reflect.Type, to map[reflect.Type]bool) {
	if t == nil {
		return
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		ts.reach(t.Elem(), to)
	case reflect.Struct:
		if to[t] || !isOurs(t) {
			return
		}
		to[t] = true
		for _, f := range reflect.VisibleFields(t) {
			if f.IsExported() && !f.Anonymous && f.Tag.Get("json") != "-" {
				ts.reach(f.Type, to)
			}
		}
	}
}

func isOurs(t reflect.Type) bool { return strings.HasSuffix(t.PkgPath(), "/protocol") }

// all are the types with a schema, by their names.
func (ts *types) all() []reflect.Type {
	both := maps.Clone(ts.asked)
	maps.Copy(both, ts.told)
	return slices.SortedFunc(maps.Keys(both), func(a, b reflect.Type) int { return strings.Compare(a.Name(), b.Name()) })
}

// snake is a name as the protocol writes it: KeyInfo is key_info.
func snake(name string) string {
	var b strings.Builder
	for i, c := range name {
		if unicode.IsUpper(c) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}
