package show

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/protocol"
)

// What a push says of its item is in the JSON of an item and of a list. Who imports that JSON puts the item back with it, or pushes a new
// one that has it, too.
func TestItemsKeepWhatPushesSay(t *testing.T) {
	t.Parallel()
	for _, h := range protocol.PushHeaders {
		if !h.Stays() {
			continue
		}
		want := "x"
		if h.Words != nil {
			want = h.Words[0]
		}
		set := func(of any) {
			switch field := reflect.ValueOf(of).Elem().FieldByName(h.Field()); field.Kind() {
			case reflect.String:
				field.SetString(want)
			case reflect.Int64:
				field.SetInt(7)
				want = fmt.Sprint(field)
			default:
				t.Fatalf("%T has no field %s for %s", of, h.Field(), h.Name)
			}
		}
		item, listed := new(client.Item), new(client.Listed)
		set(item)
		set(listed)
		for in, shown := range map[string]*Item{"an item": Shown(item), "a list": Listed(listed)} {
			text, err := json.Marshal(shown)
			if err != nil {
				t.Fatal(err)
			}
			var read Item
			if err := json.Unmarshal(text, &read); err != nil {
				t.Fatal(err)
			}
			back := reflect.ValueOf(Import(&read.Item)).Elem().FieldByName(h.Field())
			if !back.IsValid() || fmt.Sprint(back) != want {
				t.Errorf("%s of %s is %s in %s, and comes back as %v", h.Name, want, text, in, back)
			}
			if got := PushHeaders(&read.Item)[h.Name]; len(got) != 1 || got[0] != want {
				t.Errorf("%s of %s is %s in %s, and is pushed with %v", h.Name, want, text, in, got)
			}
		}
	}
}
