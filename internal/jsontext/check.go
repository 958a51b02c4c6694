// Package jsontext refuses JSON whose meaning encoding/json would change without a word: a field
// that occurs twice in one object, of which the last would count, and strings that are no Unicode,
// in which it would put U+FFFD in place of what it cannot read.
package jsontext

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// Check returns an error that names the field at which a JSON text does not mean one thing, at any
// depth. It says nothing about a text that is no JSON: whoever reads it does.
func Check(text []byte) error {
	if !json.Valid(text) {
		return nil
	}
	c := checker{text: text}
	return c.value("")
}

// checker goes through valid JSON.
type checker struct {
	text []byte
	at   int
}

// next returns the byte at which the next token begins.
func (c *checker) next() byte {
	for c.text[c.at] <= ' ' {
		c.at++
	}
	return c.text[c.at]
}

// value checks the value of a field; the outermost one has no name.
func (c *checker) value(field string) error {
	switch c.next() {
	case '{':
		return c.object(field)
	case '[':
		c.at++
		for c.next() != ']' {
			if c.text[c.at] == ',' {
				c.at++
			}
			if err := c.value(field); err != nil {
				return err
			}
		}
		c.at++
	case '"':
		if err := checkString(c.raw()); err != nil {
			return fmt.Errorf("%s %w", named(field), err)
		}
	default:
		for c.at < len(c.text) && bytes.IndexByte([]byte(" \t\r\n,]}"), c.text[c.at]) < 0 {
			c.at++
		}
	}
	return nil
}

func (c *checker) object(field string) error {
	c.at++
	seen := make(map[string]bool, 8)
	for c.next() != '}' {
		if c.text[c.at] == ',' {
			c.at++
			c.next()
		}
		raw := c.raw()
		if err := checkString(raw); err != nil {
			return fmt.Errorf("the name of a field %w", err)
		}
		var name string
		if err := json.Unmarshal(raw, &name); err != nil {
			return err
		}
		if seen[name] {
			return fmt.Errorf("%s occurs twice", named(path(field, name)))
		}
		seen[name] = true
		c.next()
		c.at++ // the colon
		if err := c.value(path(field, name)); err != nil {
			return err
		}
	}
	c.at++
	return nil
}

// raw returns the string that begins here, with its quotation marks.
func (c *checker) raw() []byte {
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
	errUTF8      = errors.New("is not UTF-8")
	errSurrogate = errors.New(`has half of a surrogate pair: expected both, such as \ud83d\ude00`)
)

// checkString returns an error when a string is no Unicode.
func checkString(raw []byte) error {
	if !utf8.Valid(raw) {
		return errUTF8
	}
	for {
		begin := bytes.IndexByte(raw, '\\')
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
func escaped(raw []byte) (unit rune, is bool) {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(raw[2:6]), 16, 16)
	return rune(n), err == nil
}

func path(field, name string) string {
	if field == "" {
		return name
	}
	return field + "." + name
}

func named(field string) string {
	if field == "" {
		return "the text"
	}
	return fmt.Sprintf("field %+.80q", field)
}
