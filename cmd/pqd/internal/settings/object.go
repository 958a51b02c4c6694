package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"

	"github.com/pqbridge/pqbridge/internal/jsontext"
)

// readObject reads an object in JSON whose fields are all fields of the value, none of them twice, and none null. A
// file with any other field asks for something that pqd would not do.
func readObject(text []byte, into any) error {
	if err := jsontext.Check(text); err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	for {
		token, err := d.Token()
		if err != nil {
			break // of the end; or the text is no JSON, as the decoder below says
		}
		if token == nil {
			return errors.New("found null: expected a value, or no such field")
		}
	}
	d = json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		return jsontext.Wrong(err)
	}
	if err := checkNames(text, reflect.TypeOf(into).Elem()); err != nil {
		return err
	}
	if _, more := d.Token(); more != io.EOF {
		return errors.New("there is more behind the object")
	}
	return nil
}

// checkNames refuses fields in another case, which encoding/json accepts as fields of a type, even beside the right
// ones.
func checkNames(text []byte, t reflect.Type) error {
	if t.Kind() != reflect.Struct && t.Kind() != reflect.Map {
		return nil
	}
	var fields map[string]json.RawMessage
	if err := json.NewDecoder(bytes.NewReader(text)).Decode(&fields); err != nil {
		return err
	}
	for name, value := range fields {
		of := t
		if t.Kind() == reflect.Map {
			of = t.Elem()
		} else {
			all := reflect.VisibleFields(t)
			i := slices.IndexFunc(all, func(f reflect.StructField) bool { return f.Tag.Get("json") == name })
			if i < 0 {
				return fmt.Errorf("unknown field %q", name)
			}
			of = all[i].Type
		}
		if err := checkNames(value, of); err != nil {
			return err
		}
	}
	return nil
}
