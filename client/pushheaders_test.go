package client_test

import (
	"fmt"
	"reflect"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// What a push says of its item stays with the item: get and lists show it, and so do they where an import has put the item.
func TestWhatAPushSaysStays(t *testing.T) {
	t.Parallel()
	from, to := start(t), start(t)
	for _, h := range protocol.PushHeaders {
		if !h.Stays() {
			continue
		}
		value := "x"
		switch h.Type.(type) {
		case int64:
			value = "7"
		case protocol.Duration:
			value = "1m0s" // of those that are kept as they are
		}
		if h.Words != nil {
			value = h.Words[0]
		}
		header := nats.Header{h.Name: {value}}
		if h.With != "" {
			header[h.With] = []string{"of " + h.Word}
		}
		pushed := from.push(t, "payload", client.Header(header))
		item, err := from.queue.Get(t.Context(), pushed.ID)
		if err != nil {
			t.Fatal(err)
		}
		says := func(where string, of any) {
			t.Helper()
			field := reflect.ValueOf(of).Elem().FieldByName(h.Field())
			if !field.IsValid() || fmt.Sprint(field) != value {
				t.Errorf("%s of %s: %s says %v", h.Name, value, where, field)
			}
		}
		says("get", item)
		back := &client.Import{Payload: item.Payload}
		for i := range reflect.TypeOf(back).Elem().NumField() {
			to := reflect.ValueOf(back).Elem().Field(i)
			if field := reflect.ValueOf(item).Elem().FieldByName(reflect.TypeOf(back).Elem().Field(i).Name); field.IsValid() && field.CanConvert(to.Type()) {
				to.Set(field.Convert(to.Type()))
			}
		}
		f, err := to.queue.ImportAsync(t.Context(), back)
		if err == nil {
			_, err = f.Result()
		}
		if err != nil {
			t.Fatal(err)
		}
		there, err := to.queue.Get(t.Context(), pushed.ID)
		if err != nil {
			t.Fatal(err)
		}
		says("get, behind an import,", there)
		for in, queue := range map[string]*client.Queue{"a list": from.queue, "a list behind an import": to.queue} {
			found := false
			for l, err := range queue.List(t.Context(), client.ListOptions{}) {
				if err != nil {
					t.Fatal(err)
				}
				if l.ID == pushed.ID {
					found = true
					says(in, &l)
				}
			}
			if !found {
				t.Errorf("%s lacks the item with %s", in, h.Name)
			}
		}
	}
}
