package jsontext

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// Broken rewrites an error of a json.Decoder that has begun to read an object.
func Broken(err error) error {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return errors.New("the JSON object does not end")
	}
	return fmt.Errorf("it is no JSON: %w", err)
}

// Wrong rewrites an error of encoding/json about a value of the wrong type, without Go's names of types. It returns
// other errors unchanged.
func Wrong(err error) error {
	var wrong *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &wrong):
		return err
	case wrong.Field == "":
		return fmt.Errorf("found a JSON %s in place of %s", wrong.Value, Kind(wrong.Type))
	}
	return fmt.Errorf("%s: found a JSON %s in place of %s", wrong.Field, wrong.Value, Kind(wrong.Type))
}

// Kind names the JSON type for a Go type.
func Kind(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()), t.Kind() == reflect.String:
		return "a string"
	case t.Kind() == reflect.Bool:
		return "true or false"
	case t.Kind() == reflect.Float64:
		return "a number"
	case t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.String:
		return "a list of strings"
	case t.Kind() == reflect.Slice:
		return "a list"
	case t.Kind() == reflect.Map, t.Kind() == reflect.Struct:
		return "an object"
	}
	return "an integer"
}
