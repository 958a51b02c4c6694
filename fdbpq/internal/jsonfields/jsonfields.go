// Package jsonfields reads JSON objects that change some fields of a setting or a definition.
//
// It guarantees:
//   - An object is accepted only if it means one thing to every reader: encoding/json accepts names in another case,
//     repeated names and, without a word, null. These are errors here.
//   - An error is an [Error] that names the field, what it has, and what was expected. It does not say what the
//     object belongs to: the caller does.
//   - An error has at most about a hundred bytes of a name or a value, however long they are.
package jsonfields

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/internal/jsontext"
)

// Error says what is wrong with an object.
type Error struct{ Text string }

func (e *Error) Error() string { return e.Text }

// Errorf returns an Error with a text.
func Errorf(format string, args ...any) error {
	return &Error{fmt.Errorf(format, args...).Error()}
}

// nameHere are the names of settings that JetStream calls otherwise.
var nameHere = map[string]string{"ack_wait": "lease", "max_deliver": "max_deliveries"}

// Check refuses an object with a field that is none of the names, or one that is null, unless nulls are allowed.
func Check(object []byte, names []string, nulls bool) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return Errorf("expected a JSON object with some of %s", strings.Join(names, ", "))
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return Errorf("%w", jsontext.Broken(err))
		}
		name := token.(string) // the decoder returns strings for names
		switch {
		case !slices.Contains(names, name) && slices.Contains(names, nameHere[name]):
			return Errorf("unknown field %q: here it is %s", name, nameHere[name])
		case !slices.Contains(names, name):
			return Errorf("unknown field %.100q: expected some of %s", name, strings.Join(names, ", "))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return Errorf("%w", jsontext.Broken(err))
		}
		if string(value) == "null" && !nulls {
			return Null(name)
		}
	}
	if _, err := d.Token(); err != nil {
		return Errorf("%w", jsontext.Broken(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return Errorf("there is more behind the JSON object")
	}
	if err := jsontext.Check(object); err != nil { // of as many fields as there are
		return Errorf("%w", err)
	}
	return nil
}

// Null is the error about a field that may not be null.
func Null(name string) error { return Errorf("%s is null: leave it out to keep it as it is", name) }

// Decode reads the fields of an object that Check has accepted. Its errors name the field, which those of
// encoding/json do not. A field whose own UnmarshalJSON returns an Error has named itself.
func Decode[T any](object []byte, to *T) error {
	err := json.Unmarshal(object, to)
	if err == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return &Error{err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one := fmt.Appendf(nil, "{%q:%s}", name, fields[name])
		err := json.Unmarshal(one, new(T))
		if err == nil {
			continue
		}
		kind := kindOf[T](name)
		if own := (*Error)(nil); errors.As(err, &own) {
			return own
		}
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return Errorf("%s is %.100s: expected %s", name, fields[name], jsontext.Kind(kind))
		}
		if kind == reflect.TypeFor[*time.Time]() {
			return Errorf("%s is %.100s: expected a time such as 2030-01-02T15:04:05Z", name, fields[name])
		}
		return Errorf("%s: %w", name, err)
	}
	return &Error{err.Error()} // each field can be read
}

// Names are the names that the fields of a struct have in JSON, in their order.
func Names[T any]() (names []string) {
	for field := range reflect.TypeFor[T]().Fields() {
		names = append(names, nameOf(field))
	}
	return names
}

func nameOf(field reflect.StructField) string {
	name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
	return name
}

// kindOf is the type of the field of T with this name in JSON, nil without such a field.
func kindOf[T any](name string) reflect.Type {
	for field := range reflect.TypeFor[T]().Fields() {
		if nameOf(field) == name {
			return field.Type
		}
	}
	return nil
}
