// Package jsontext refuses JSON whose meaning encoding/json would change silently: a field that occurs twice in one
// object, of which only the last would count, and strings that are not Unicode, in which it would replace
// unreadable parts by U+FFFD.
package jsontext

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Depth is how deep objects and arrays may be nested. No request of the protocol needs half as much.
const Depth = 16

// Check returns an error that names the field at which a JSON text is ambiguous, and an error for a text that is
// nested too deep. It accepts a text that is not JSON: its reader will refuse it.
func Check(text []byte) error {
	if deep(text) {
		return fmt.Errorf("objects and arrays are nested deeper than %d: expected no more", Depth)
	}
	if !json.Valid(text) {
		return nil
	}
	c := checker{text: string(text)}
	return c.value()
}

// deep reports whether a text is nested too deep. It stops reading there.
func deep(text []byte) bool {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			quoted = !quoted
		case quoted:
			if c == '\\' {
				i++
			}
		case c == '{', c == '[':
			if depth++; depth > Depth {
				return true
			}
		case c == '}', c == ']':
			depth--
		}
	}
	return false
}

// fieldError is a mistake in a field. Its path is made on the way up: on the way down no path is needed, and the
// paths of all levels together may be much longer than the text.
type fieldError struct {
	path string // where in the text; "": the text as a whole
	err  error
}

func (e *fieldError) Error() string {
	if e.path == "" {
		return "the text " + e.err.Error()
	}
	return fmt.Sprintf("field %+.*q %s", shown, e.path, e.err)
}

// shown is how many characters of a path an error shows.
const shown = 80

// within turns an error about a value into one about a field of an object.
func within(name string, err error) error {
	if e, is := err.(*fieldError); is {
		name = name[:min(len(name), shown*utf8.UTFMax)]
		if e.path != "" {
			name += "."
		}
		e.path = name + e.path
	}
	return err
}

// checker goes through valid JSON. Its memory is bounded by the length of the text, however many objects and names
// it has.
type checker struct {
	text  string
	at    int
	names []string // of the fields read so far, in the present object and in the objects around it
}

// next returns the byte at which the next token begins.
func (c *checker) next() byte {
	for c.text[c.at] <= ' ' {
		c.at++
	}
	return c.text[c.at]
}

func (c *checker) value() error {
	switch c.next() {
	case '{':
		return c.object()
	case '[':
		c.at++
		for c.next() != ']' {
			if c.text[c.at] == ',' {
				c.at++
			}
			if err := c.value(); err != nil {
				return err
			}
		}
		c.at++
	case '"':
		if err := checkString(c.raw()); err != nil {
			return &fieldError{err: err}
		}
	default:
		c.scalar()
	}
	return nil
}

// scalar passes over a number, true, false or null.
func (c *checker) scalar() {
	for c.at < len(c.text) && strings.IndexByte(" \t\r\n,]}", c.text[c.at]) < 0 {
		c.at++
	}
}

// few is how many names are compared one by one.
const few = 16

func (c *checker) object() error {
	c.at++
	first := len(c.names)
	var seen map[string]bool // beyond few
	for c.next() != '}' {
		if c.text[c.at] == ',' {
			c.at++
			c.next()
		}
		raw := c.raw()
		if err := checkString(raw); err != nil {
			return fmt.Errorf("the name of a field %w", err)
		}
		name := unquote(raw)
		if seen[name] || slices.Contains(c.names[first:], name) {
			return within(name, &fieldError{err: errTwice})
		}
		switch {
		case len(c.names)-first < few:
			c.names = append(c.names, name)
		case seen == nil:
			seen = make(map[string]bool)
			fallthrough
		default:
			seen[name] = true
		}
		c.next()
		c.at++ // the colon
		if err := c.value(); err != nil {
			return within(name, err)
		}
	}
	c.at++
	c.names = c.names[:first]
	return nil
}

// raw returns the string that begins here, with its quotation marks.
func (c *checker) raw() string {
	begin := c.at
	for c.at++; c.text[c.at] != '"'; c.at++ {
		if c.text[c.at] == '\\' {
			c.at++
		}
	}
	c.at++
	return c.text[begin:c.at]
}

var (
	errTwice     = errors.New("occurs twice")
	errUTF8      = errors.New("is not UTF-8")
	errSurrogate = errors.New(`has half of a surrogate pair: expected both, such as \ud83d\ude00`)
)

// checkString returns an error when a string is no Unicode.
func checkString(raw string) error {
	if !utf8.ValidString(raw) {
		return errUTF8
	}
	for {
		begin := strings.IndexByte(raw, '\\')
		if begin < 0 {
			return nil
		}
		raw = raw[begin:]
		switch half, is := escaped(raw); {
		case !is:
			raw = raw[2:]
		case !utf16.IsSurrogate(half):
			raw = raw[6:]
		default:
			if other, is := escaped(raw[6:]); !is || utf16.DecodeRune(half, other) == utf8.RuneError {
				return errSurrogate
			}
			raw = raw[12:]
		}
	}
}

// escaped returns the UTF-16 unit that a text begins with: \u and four hexadecimal digits.
func escaped(raw string) (unit rune, is bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(raw[2:6], 16, 16)
	return rune(n), err == nil
}

// unquote returns the text of a string, with U+FFFD for half of a surrogate pair.
func unquote(raw string) string {
	raw = raw[1 : len(raw)-1]
	escape := strings.IndexByte(raw, '\\')
	if escape < 0 {
		return raw
	}
	text := make([]byte, 0, len(raw))
	for ; escape >= 0; escape = strings.IndexByte(raw, '\\') {
		text, raw = append(text, raw[:escape]...), raw[escape:]
		switch unit, is := escaped(raw); {
		case !is:
			text, raw = append(text, escapes.Replace(raw[1:2])...), raw[2:]
		case utf16.IsSurrogate(unit):
			other, _ := escaped(raw[6:])
			both := utf16.DecodeRune(unit, other)
			if text, raw = utf8.AppendRune(text, both), raw[6:]; both != utf8.RuneError {
				raw = raw[6:]
			}
		default:
			text, raw = utf8.AppendRune(text, unit), raw[6:]
		}
	}
	return string(append(text, raw...))
}

// escapes are the letters behind a backslash that stand for another character.
var escapes = strings.NewReplacer("b", "\b", "f", "\f", "n", "\n", "r", "\r", "t", "\t")

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

// These functions read valid JSON a piece at a time, so that a reader may stop at the first unexpected piece, and
// pieces are no copies. They do not repeat the checks of [Check].

// Fields calls a function with the name and the value of each field of an object, until the function reports
// false. It returns false when the text is no object.
func Fields(text string, each func(name, value string) (more bool)) (is bool) {
	c := checker{text: text}
	return c.fields(each)
}

// Cut cuts an object around the value of a field.
func Cut(text, field string) (before, value, after string, found bool) {
	c := checker{text: text}
	c.fields(func(name, of string) bool {
		if found = name == field; found {
			before, value, after = text[:c.at-len(of)], of, text[c.at:]
		}
		return !found
	})
	return before, value, after, found
}

func (c *checker) fields(each func(name, value string) (more bool)) (is bool) {
	if c.next() != '{' {
		return false
	}
	c.at++
	for more := true; more && c.next() != '}'; {
		if c.text[c.at] == ',' {
			c.at++
			c.next()
		}
		name := unquote(c.raw())
		c.next()
		c.at++ // the colon
		more = each(name, c.skip())
	}
	return true
}

// Values does the same for the values of an array.
func Values(text string, each func(value string) (more bool)) (is bool) {
	c := checker{text: text}
	if c.next() != '[' {
		return false
	}
	c.at++
	for more := true; more && c.next() != ']'; {
		if c.text[c.at] == ',' {
			c.at++
		}
		more = each(c.skip())
	}
	return true
}

// Text returns the text of a string, false when the value is no string.
func Text(value string) (text string, is bool) {
	if value == "" || value[0] != '"' {
		return "", false
	}
	return unquote(value), true
}

// skip returns the value that begins here.
func (c *checker) skip() string {
	c.next()
	begin := c.at
	for depth := 0; ; {
		switch c.text[c.at] {
		case '"':
			c.raw()
		case '{', '[':
			depth++
			c.at++
		case '}', ']':
			depth--
			c.at++
		case ',', ':':
			c.at++
		default:
			c.scalar()
		}
		if depth == 0 {
			return c.text[begin:c.at]
		}
		c.next()
	}
}
