package source

import (
	"encoding/json"

	"github.com/pqbridge/pqbridge/fdbpq/internal/jsonfields"
)

// Value is where a value of an item comes from: it is the same for all, that of a header of the message, or a
// token of its subject.
type Value struct {
	Constant string
	Header   string
	Token    int // from 1
	Default  string
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) {
	if v.Header == "" && v.Token == 0 {
		return json.Marshal(v.Constant)
	}
	return json.Marshal(struct {
		Header  string `json:"header,omitempty"`
		Token   int    `json:"token,omitempty"`
		Default string `json:"default,omitempty"`
	}{v.Header, v.Token, v.Default})
}

// UnmarshalJSON implements json.Unmarshaler. A number is as good as its text.
func (v *Value) UnmarshalJSON(b []byte) error {
	*v = Value{}
	if text, is := scalar(b); is {
		v.Constant = text
		return nil
	}
	expected := jsonfields.Errorf(`map has %s: expected a text, a number, {"header":"<name>"} or {"token":<n>}, with a "default" if there is to be one`, b)
	if jsonfields.Check(b, []string{"header", "token", "default"}, false) != nil {
		return expected
	}
	var object struct {
		Header  string
		Token   int
		Default json.RawMessage
	}
	if json.Unmarshal(b, &object) != nil || object.Token < 0 || (object.Header == "") == (object.Token == 0) {
		return expected
	}
	v.Header, v.Token = object.Header, object.Token
	if object.Default != nil {
		text, is := scalar(object.Default)
		if !is {
			return expected
		}
		v.Default = text
	}
	return nil
}

// scalar is the text of a JSON string or number that is not empty.
func scalar(b []byte) (text string, is bool) {
	var number json.Number
	switch {
	case len(b) > 0 && b[0] == '"':
		is = json.Unmarshal(b, &text) == nil
	case json.Unmarshal(b, &number) == nil:
		text, is = number.String(), true
	}
	return text, is && text != ""
}

// Fields are the values of items that a source maps.
var Fields = []string{"priority", "key", "weight", "delay", "not_before", "ttl", "unique", "on_conflict"}
