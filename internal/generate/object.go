package main

import (
	"bytes"
	"encoding/json"
	"strings"
)

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON implements json.Marshaler.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	for i, m := range o {
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.WriteByte("{,"[min(i, 1)])
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	if len(o) == 0 {
		b.WriteByte('{')
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

// read reads an object, and keeps the text of its values.
func (o *object) read(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return err
		}
		*o = append(*o, member{name.(string), value}) // the decoder returns strings for names
	}
	return nil
}

// width is the longest value that stays in one line.
const width = 140

// indented is JSON as a file: a value that fits is in one line, so that each field has a line.
func indented(value any) ([]byte, error) {
	var compact bytes.Buffer
	e := json.NewEncoder(&compact)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	text := compact.Bytes()
	for escaped, c := range map[string]string{`\u003c`: "<", `\u003e`: ">", `\u0026`: "&"} { // by types with a MarshalJSON of their own
		text = bytes.ReplaceAll(text, []byte(escaped), []byte(c))
	}
	var b bytes.Buffer
	if err := writeIndented(&b, text, 0); err != nil {
		return nil, err
	}
	return append(b.Bytes(), '\n'), nil
}

func writeIndented(b *bytes.Buffer, text json.RawMessage, depth int) error {
	text = bytes.TrimSpace(text)
	if depth > 0 && len(text) <= width || text[0] != '{' && text[0] != '[' {
		writeLine(b, text)
		return nil
	}
	inner := "\n" + strings.Repeat("  ", depth+1)
	next := func(i int) string { return []string{inner, "," + inner}[min(i, 1)] }
	if text[0] == '[' {
		var list []json.RawMessage
		if err := json.Unmarshal(text, &list); err != nil {
			return err
		}
		b.WriteByte('[')
		for i, one := range list {
			b.WriteString(next(i))
			if err := writeIndented(b, one, depth+1); err != nil {
				return err
			}
		}
		b.WriteString(inner[:len(inner)-2] + "]")
		return nil
	}
	var members object
	if err := members.read(text); err != nil {
		return err
	}
	b.WriteByte('{')
	for i, m := range members {
		name, err := json.Marshal(m.name)
		if err != nil {
			return err
		}
		b.WriteString(next(i) + string(name) + ": ")
		if err := writeIndented(b, m.value.(json.RawMessage), depth+1); err != nil {
			return err
		}
	}
	b.WriteString(inner[:len(inner)-2] + "}")
	return nil
}

// writeLine writes a value in one line, with a space behind colons and commas.
func writeLine(b *bytes.Buffer, text []byte) {
	quoted, escaped := false, false
	for _, c := range text {
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case c == '"':
			quoted = !quoted
		case quoted:
			escaped = c == '\\'
		case c == ':' || c == ',':
			b.WriteByte(' ')
		}
	}
}
