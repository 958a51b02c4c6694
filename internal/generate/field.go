package main

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// field is a field of a configuration, with the content of its comment and its marks.
type field struct {
	name, goName string
	kind         reflect.Type
	doc          string // for everybody
	more         string // for the page
	why          string // of the bound

	label, core, zero string
	since             int // the version of a queue's state
	words             []string
	standard          string // its value in a queue without a configuration; "": zero
	max               string
	maxLen            int
	notNegative       bool
	names             bool
}

func configFields(said comments) (all []field, err error) {
	for f := range reflect.TypeFor[protocol.Config]().Fields() {
		one, err := newField(f, said["Config."+f.Name])
		if err != nil {
			return nil, fmt.Errorf("field %s of Config: %w", f.Name, err)
		}
		all = append(all, one)
	}
	return all, nil
}

// firstVersion is the version of a queue's state that has all fields without a mark.
const firstVersion = 1

func newField(f reflect.StructField, c comment) (field, error) {
	one := field{since: firstVersion, name: f.Tag.Get("json"), goName: f.Name, kind: f.Type, doc: first(c.text), why: c.behind}
	if ps := paragraphs(c.text); len(ps) > 1 {
		one.more = strings.Join(ps[1:], " ")
	}
	if one.doc == c.behind || !strings.HasSuffix(one.doc, ".") {
		return field{}, fmt.Errorf("expected a comment in front of it, of sentences")
	}
	for mark := range strings.SplitSeq(f.Tag.Get("pq"), "; ") {
		if err := one.read(mark); err != nil {
			return field{}, fmt.Errorf("the mark %q: %w", mark, err)
		}
	}
	switch {
	case one.label == "":
		return field{}, fmt.Errorf("expected a label")
	case one.words == nil && one.isText() && one.standard != "":
		return field{}, fmt.Errorf("expected no default of a text without words")
	}
	return one, nil
}

// read reads a mark.
func (f *field) read(mark string) (err error) {
	name, value, given := strings.Cut(mark, "=")
	text := map[string]*string{"label": &f.label, "core": &f.core, "zero": &f.zero, "default": &f.standard, "max": &f.max}[name]
	switch {
	case text != nil && given && value != "" && !strings.Contains(value, ";"):
		*text = value
		if name == "default" || name == "max" {
			_, err = f.goValue(value)
		}
	case name == "enum" && strings.Contains(value, "|"):
		f.words = strings.Split(value, "|")
	case name == "since":
		if f.since, err = strconv.Atoi(value); err == nil && f.since <= firstVersion {
			return fmt.Errorf("expected the version of a queue's state from which on programs keep the field: for a new one that after stateNewest of fdbpq/queuestate.go")
		}
	case name == "maxlen":
		f.maxLen, err = strconv.Atoi(value)
	case mark == "min=0":
		f.notNegative = true
	case mark == "names":
		f.names = true
	default:
		return fmt.Errorf("expected since, label, enum, default, max, maxlen, zero or core with a value, min=0 or names")
	}
	return err
}

func (f *field) isDuration() bool { return f.kind == reflect.TypeFor[protocol.Duration]() }
func (f *field) isInt() bool      { return f.kind.Kind() == reflect.Int64 && !f.isDuration() }
func (f *field) isBool() bool     { return f.kind.Kind() == reflect.Bool }
func (f *field) isText() bool     { return f.kind.Kind() == reflect.String }

// goValue is a value in Go's source.
func (f *field) goValue(value string) (string, error) {
	switch {
	case f.isDuration():
		d, err := time.ParseDuration(value)
		switch {
		case err != nil:
			return "", err
		case d%time.Hour == 0:
			return fmt.Sprintf("%d * time.Hour", d/time.Hour), nil
		case d%time.Minute == 0:
			return fmt.Sprintf("%d * time.Minute", d/time.Minute), nil
		}
		return fmt.Sprintf("%d * time.Second", d/time.Second), nil
	case f.isInt():
		_, err := strconv.ParseInt(value, 10, 64)
		return grouped(value), err
	case f.isText():
		return strconv.Quote(value), nil
	}
	return "", fmt.Errorf("expected none of a %s", f.kind)
}

// grouped is a number in Go's source, with a line between thousands where there are more than four digits.
func grouped(digits string) string {
	if len(digits) <= 4 {
		return digits
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "_" + digits[i:]
	}
	return digits
}

// jsonDefault is the value in a queue without a configuration, as an answer has it.
func (f *field) jsonDefault() string {
	value := reflect.New(f.kind).Elem()
	switch {
	case f.standard == "":
	case f.isDuration():
		d, _ := time.ParseDuration(f.standard) // goValue has read it
		value.SetInt(int64(d))
	case f.isInt():
		return f.standard
	default:
		value.SetString(f.standard)
	}
	text, err := json.Marshal(value.Interface())
	if err != nil {
		panic(err) // all kinds of fields have JSON
	}
	return string(text)
}

// allowed are the words that a value may be.
func (f *field) allowed() []string {
	if f.isBool() {
		return []string{"true", "false"}
	}
	return f.words
}
