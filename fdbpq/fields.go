package fdbpq

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

// ConfigError says what is wrong with a configuration.
type ConfigError struct {
	Text string
}

func configError(format string, args ...any) error {
	return &ConfigError{fmt.Errorf(format, args...).Error()}
}

func (e *ConfigError) Error() string { return "configuration: " + e.Text }

// decode reads the fields of an object that [checkObject] has checked. Its errors name the
// field, which those of encoding/json do not.
func decode[T any](object []byte, to *T) error {
	err := json.Unmarshal(object, to)
	if err == nil {
		return nil
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(object, &fields) != nil {
		return &ConfigError{err.Error()}
	}
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		one := fmt.Appendf(nil, "{%q:%s}", name, fields[name])
		err := json.Unmarshal(one, new(T))
		if err == nil {
			continue
		}
		kind := kindOf[T](name)
		if own := (*ConfigError)(nil); errors.As(err, &own) {
			return own // it names the field
		}
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return configError("%s is %.100s: expected %s", name, fields[name], jsontext.Kind(kind))
		}
		if kind == reflect.TypeFor[*time.Time]() {
			return configError("%s is %.100s: expected a time such as 2030-01-02T15:04:05Z", name, fields[name])
		}
		return configError("%s: %w", name, err)
	}
	return &ConfigError{err.Error()} // each field can be read
}

// kindOf is the type that a field of a type has, by its name in JSON; nil: there is no such field.
func kindOf[T any](name string) reflect.Type {
	for field := range reflect.TypeFor[T]().Fields() {
		if tag, _, _ := strings.Cut(field.Tag.Get("json"), ","); tag == name {
			return field.Type
		}
	}
	return nil
}

// checkObject refuses what encoding/json accepts: names in another case, repeated names,
// and null, unless that is allowed.
func checkObject(object []byte, names []string, nulls bool) error {
	d := json.NewDecoder(bytes.NewReader(object))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return configError("expected a JSON object with some of %s", strings.Join(names, ", "))
	}
	for d.More() {
		token, err := d.Token()
		if err != nil {
			return configError("%w", jsontext.Broken(err))
		}
		name := token.(string) // the decoder returns strings for names
		switch {
		case !slices.Contains(names, name) && slices.Contains(names, nameHere[name]):
			return configError("unknown field %q: here it is %s", name, nameHere[name])
		case !slices.Contains(names, name):
			return configError("unknown field %.100q: expected some of %s", name, strings.Join(names, ", "))
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return configError("%w", jsontext.Broken(err))
		}
		if string(value) == "null" && !nulls {
			return configError("%s is null: leave it out to keep it as it is", name)
		}
	}
	if _, err := d.Token(); err != nil {
		return configError("%w", jsontext.Broken(err))
	}
	if _, err := d.Token(); err != io.EOF {
		return configError("there is more behind the JSON object")
	}
	if err := jsontext.Check(object); err != nil { // of as many fields as there are
		return configError("%w", err)
	}
	return nil
}

// nameHere are the names of settings that JetStream calls otherwise.
var nameHere = map[string]string{"ack_wait": "lease", "max_deliver": "max_deliveries"}
