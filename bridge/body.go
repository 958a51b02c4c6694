package bridge

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
)

// readObject reads a JSON object with no more than one level and hands each
// member to set, which says whether it knows the field and what is wrong with
// the value. Names are compared exactly and must not repeat: what would be
// ignored is more likely a mistake.
func readObject(what string, body []byte, fields string, set func(name string, value any) (known bool, f *failure)) *failure {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return failf(400, "%s is %s: expected a JSON object", what, shown(string(body)))
	}
	seen := make(map[string]bool, 8)
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return brokenJSON(what, err)
		}
		name, _ := key.(string) // the decoder accepts nothing else
		value, err := d.Token()
		if err != nil {
			return brokenJSON(what, err)
		}
		if _, nested := value.(json.Delim); nested || value == nil {
			return failf(400, "%s: field %s: expected a number, a string or a boolean", what, shown(name))
		}
		if seen[name] {
			return failf(400, "%s: field %s stands twice", what, shown(name))
		}
		seen[name] = true
		known, f := set(name, value)
		if !known {
			return failf(400, "%s has no field %s: expected some of %s", what, shown(name), fields)
		}
		if f != nil {
			return f
		}
	}
	if _, err := d.Token(); err != nil {
		return brokenJSON(what, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return failf(400, "%s: there is more behind the JSON object", what)
	}
	return nil
}

func brokenJSON(what string, err error) *failure {
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return failf(400, "%s: the JSON object does not end", what)
	}
	return failf(400, "%s is no JSON: %s", what, err)
}

// readInteger reads an integer from a JSON value.
func readInteger(what string, value any, least, most int64) (int64, *failure) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, failf(400, "%s is no number: expected an integer", what)
	}
	return parseInteger(what, number.String(), least, most)
}

// parseInteger reads an integer in its one form in decimal.
func parseInteger(what, s string, least, most int64) (int64, *failure) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, failf(400, "%s is %s: expected an integer without + or leading zeros, %d to %d", what, shown(s), least, most)
	}
	if n < least || n > most {
		return 0, failf(400, "%s is %d: expected %d to %d", what, n, least, most)
	}
	return n, nil
}

func readString(what string, value any) (string, *failure) {
	s, ok := value.(string)
	if !ok {
		return "", failf(400, "%s: expected a string", what)
	}
	return s, nil
}

func readBool(what string, value any) (bool, *failure) {
	v, ok := value.(bool)
	if !ok {
		return false, failf(400, "%s: expected true or false", what)
	}
	return v, nil
}
