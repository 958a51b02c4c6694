package jsontext_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/pqbridge/pqbridge/internal/jsontext"
)

// What is read a piece at a time is what encoding/json reads at once.
func TestRead(t *testing.T) {
	t.Parallel()
	for _, text := range []string{
		`{}`, ` { "a" : 1 , "b" : [ ] , "\u0063\n" : { } } `, `{"a":{"b":["}",{"c":"]"}]},"d":-1.5e3,"e":true,"f":null}`,
		`{"\ud83d\ude00":"\ud800","\ud800x":"\udc00\ud800"}`, `{"a":"\\\"","b\\":"{"}`, `{"":[[],[[]]],"x":"é"}`,
	} {
		var want map[string]json.RawMessage
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		got := make(map[string]json.RawMessage)
		if !jsontext.Fields(text, func(name, value string) bool {
			got[name] = json.RawMessage(value)
			before, cut, after, found := jsontext.Cut(text, name)
			if !found || cut != value || before+cut+after != text {
				t.Errorf("%s: cut around %q: %q, %q, %q, %t", text, name, before, cut, after, found)
			}
			return true
		}) {
			t.Errorf("%s: no object", text)
		}
		if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: %q, expected %q", text, got, want)
		}
		if _, _, _, found := jsontext.Cut(text, "missing"); found {
			t.Errorf("%s: a field that is missing was found", text)
		}
		for _, value := range want {
			var all []json.RawMessage
			is := json.Unmarshal(value, &all) == nil && all != nil
			var values []json.RawMessage
			if jsontext.Values(string(value), func(value string) bool {
				values = append(values, json.RawMessage(value))
				return true
			}) != is || len(values) != len(all) || is && len(all) > 0 && !reflect.DeepEqual(values, all) {
				t.Errorf("%s: %q, expected %q", value, values, all)
			}
			var want string
			is = value[0] == '"' && json.Unmarshal(value, &want) == nil
			if got, text := jsontext.Text(string(value)); got != want || text != is {
				t.Errorf("%s: %q, expected %q", value, got, want)
			}
		}
	}
	n := 0
	if jsontext.Fields(`{"a":1,"b":2,"c":3}`, func(name, _ string) bool { n++; return name != "b" }); n != 2 {
		t.Errorf("%d fields were read, expected those up to b", n)
	}
	for _, text := range []string{"[]", "5", `"a"`, "null"} {
		if jsontext.Fields(text, nil) {
			t.Errorf("%s is an object", text)
		}
	}
}
