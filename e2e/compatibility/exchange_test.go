package compatibility_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// exchange is a request, and what has to be in its answer. An answer may have more.
type exchange struct {
	Subject string
	Headers nats.Header `json:",omitempty"`
	Body    string      `json:",omitempty"`
	Answer  answer
}

type answer struct {
	Headers map[string]any `json:",omitempty"` // lists of values; null is any value
	Body    any            `json:",omitempty"` // JSON, or a text; null is any value
}

// ask sends the request.
func (e exchange) ask(t *testing.T, nc *nats.Conn) (a answer) {
	t.Helper()
	reply, err := nc.RequestMsg(&nats.Msg{Subject: e.Subject, Header: maps.Clone(e.Headers), Data: []byte(e.Body)}, testenv.Patience())
	if err != nil {
		t.Fatalf("%s: %v", e.Subject, err)
	}
	a.Headers = make(map[string]any)
	for name, values := range reply.Header {
		list := make([]any, len(values))
		for i, value := range values {
			list[i] = value
		}
		a.Headers[name] = list
	}
	if json.Unmarshal(reply.Data, &a.Body) != nil {
		a.Body = string(reply.Data)
	}
	return a
}

// differs says where what was found is not what has to be there; "": it is.
func (a answer) differs(found answer) string {
	if where := differs("headers", anyMap(a.Headers), anyMap(found.Headers)); where != "" {
		return where
	}
	return differs("body", a.Body, found.Body)
}

func anyMap(m map[string]any) any {
	if m == nil {
		return nil
	}
	return m
}

// differs compares JSON values. Objects may have more fields than expected.
func differs(where string, want, found any) string {
	switch want := want.(type) {
	case nil:
		return ""
	case map[string]any:
		object, is := found.(map[string]any)
		for _, name := range slices.Sorted(maps.Keys(want)) {
			value, has := object[name]
			if !is || !has {
				return fmt.Sprintf("%s has no %s", where, name)
			}
			if text := differs(where+"."+name, want[name], value); text != "" {
				return text
			}
		}
		return ""
	case []any:
		list, is := found.([]any)
		if !is || len(list) != len(want) {
			return fmt.Sprintf("%s is %v, expected %d elements", where, found, len(want))
		}
		for i := range want {
			if text := differs(fmt.Sprintf("%s[%d]", where, i), want[i], list[i]); text != "" {
				return text
			}
		}
		return ""
	default:
		if !reflect.DeepEqual(want, found) {
			return fmt.Sprintf("%s is %v, expected %v", where, found, want)
		}
		return ""
	}
}

// common is what two answers to one request have in common: what is left of a value that is made
// at random, or that differs from one process to the next, is null.
func common(a, b any) any {
	switch a := a.(type) {
	case map[string]any:
		other, is := b.(map[string]any)
		if !is {
			return nil
		}
		both := make(map[string]any)
		for name, value := range a {
			if found, has := other[name]; has {
				both[name] = common(value, found)
			}
		}
		return both
	case []any:
		other, is := b.([]any)
		if !is || len(other) != len(a) {
			return nil
		}
		both := make([]any, len(a))
		for i := range a {
			both[i] = common(a[i], other[i])
		}
		return both
	default:
		if !reflect.DeepEqual(a, b) {
			return nil
		}
		return a
	}
}
