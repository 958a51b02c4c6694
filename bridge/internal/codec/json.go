package codec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/internal/jsontext"
	"github.com/pqbridge/pqbridge/protocol"
)

// ReadObject reads a JSON object of up to [protocol.MaxRequestBody] and hands each member to set, which reports
// whether it knows the field, and what is wrong with the value. A value that is an object itself is for
// readMembersOf. Names are compared exactly and must not repeat: a member that would be ignored is probably a
// mistake.
func ReadObject(what string, body []byte, fields string, set func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	if f := checkSize(what, len(body), protocol.MaxRequestBody); f != nil {
		return f
	}
	if f := checkJSON(what, body); f != nil {
		return f
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return failure.Newf(400, "%s is %s: expected a JSON object", what, failure.Quote(string(body)))
	}
	if f := readMembers(d, what, fields, set); f != nil {
		return f
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return failure.Newf(400, "%s: there is more behind the JSON object", what)
	}
	return nil
}

// members are the members of an object within another one.
type members struct{ of *json.Decoder }

// elements are the elements of a list.
type elements struct{ of *json.Decoder }

// checkJSON refuses JSON that is ambiguous.
func checkJSON(what string, text []byte) *failure.Failure {
	if err := jsontext.Check(text); err != nil {
		return failure.Newf(400, "%s: %s", what, err)
	}
	return nil
}

func readMembers(d *json.Decoder, what, fields string, set func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
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
		switch value {
		case json.Delim('{'):
			value = members{d}
		case json.Delim('['):
			value = elements{d}
		}
		known, f := set(name, value)
		if !known {
			return failure.Newf(400, "%s has no field %s: expected some of %s", what, failure.Quote(name), fields)
		}
		if f != nil {
			return f
		}
	}
	if _, err := d.Token(); err != nil {
		return brokenJSON(what, err)
	}
	return nil
}

func brokenJSON(what string, err error) *failure.Failure {
	return failure.Newf(400, "%s: %s", what, jsontext.Broken(err))
}

// readMembersOf reads an object from a JSON value.
func readMembersOf(what string, value any, fields string, set func(name string, value any) (known bool, f *failure.Failure)) *failure.Failure {
	m, ok := value.(members)
	if !ok {
		return failure.Newf(400, "%s: expected a JSON object", what)
	}
	return readMembers(m.of, what, fields, set)
}

// ReadInteger reads an integer from a JSON value.
func ReadInteger(what string, value any, least, most int64) (int64, *failure.Failure) {
	number, ok := value.(json.Number)
	if !ok {
		return 0, failure.Newf(400, "%s is no number: expected an integer", what)
	}
	return ParseInteger(what, number.String(), least, most)
}

// readIntegers reads up to count integers from a JSON list.
func readIntegers(what string, value any, least, most int64, count int) (all []int64, f *failure.Failure) {
	list, ok := value.(elements)
	if !ok {
		return nil, failure.Newf(400, "%s: expected a list of integers", what)
	}
	for list.of.More() {
		value, err := list.of.Token()
		if err != nil {
			return nil, brokenJSON(what, err)
		}
		n, f := ReadInteger(what, value, least, most)
		if f != nil {
			return nil, f
		}
		if all = append(all, n); len(all) > count {
			return nil, failure.Newf(400, "%s has more than %d integers", what, count)
		}
	}
	if _, err := list.of.Token(); err != nil {
		return nil, brokenJSON(what, err)
	}
	return all, nil
}

// ParseInteger reads an integer in its one form in decimal.
func ParseInteger(what, s string, least, most int64) (int64, *failure.Failure) {
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || strconv.FormatInt(n, 10) != s {
		return 0, failure.Newf(400, "%s is %s: expected an integer without + or leading zeros, %s", what, failure.Quote(s), span(n, least, most))
	}
	if n < least || n > most {
		return 0, failure.Newf(400, "%s is %d: expected %s", what, n, span(n, least, most))
	}
	return n, nil
}

// maxNumber bounds deliveries and fences: the numbers grow further.
const maxNumber = 1 << 62

func parseNumber(key, value string) (int64, *failure.Failure) {
	return ParseInteger(key, value, 0, maxNumber)
}

// span says which integers are allowed in place of n. It names a bound that is usually irrelevant only if n is
// beyond it.
func span(n, least, most int64) string {
	if least >= 0 && most >= maxNumber && n < maxNumber {
		return fmt.Sprintf("%d or more", least)
	}
	return fmt.Sprintf("%d to %d", least, most)
}

// ReadString reads a string from a JSON value.
func ReadString(what string, value any) (string, *failure.Failure) {
	s, ok := value.(string)
	if !ok {
		return "", failure.Newf(400, "%s: expected a string", what)
	}
	return s, nil
}

// ReadBool reads a boolean from a JSON value.
func ReadBool(what string, value any) (bool, *failure.Failure) {
	v, ok := value.(bool)
	if !ok {
		return false, failure.Newf(400, "%s: expected true or false", what)
	}
	return v, nil
}

// ReadID reads the id of an item.
func ReadID(text string) (fdbpq.ID, *failure.Failure) {
	id, err := fdbpq.ParseID(text)
	if err != nil {
		return id, failure.Newf(400, "id %s: %s", failure.Quote(text), err)
	}
	return id, nil
}
