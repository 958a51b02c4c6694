package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pqbridge/pqbridge/protocol"
)

// staying are the headers that get and lists show beside those that all answers have.
func (h *headers) staying() (all []*protocol.PushHeader) {
	for i := range h.push {
		if p := &h.push[i]; p.Stays() && !p.Always {
			all = append(all, p)
		}
	}
	return all
}

// shown has the values that get and lists show.
func (b *goSource) shown() {
	all := b.staying()
	b.line("// shown are the values of a push that get and lists show, and that an import takes back.\ntype shown struct {")
	for _, p := range all {
		b.line("%s %s", stored(p), inCodec(b.field(storedItem, stored(p), p.Name)))
	}
	b.line("}\n")
	for _, from := range []struct{ of, name string }{{newItem, "Pushed"}, {importItem, "Imported"}, {storedItem, "Stored"}} {
		var values []string
		for _, p := range all {
			b.field(from.of, stored(p), p.Name)
			values = append(values, "item."+stored(p))
		}
		b.line("func shownOf%s(item *%s) shown { return shown{%s} }\n", from.name, from.of, strings.Join(values, ", "))
	}
	b.line("// room bounds the bytes that the values add to an answer.\nfunc (s *shown) room() (n int) {")
	for _, p := range all {
		b.line("if s.%s {\nn += len(%s) + %s + lineFrame\n}", b.isThere(p, true), b.name(p.Name), room(p))
	}
	b.line("return n\n}\n")
	b.line("// each calls f with the headers that have the values.\nfunc (s *shown) each(f func(name, value string)) {")
	for _, p := range all {
		b.line("if s.%s {\nf(%s, %s)\n}", b.isThere(p, false), b.name(p.Name), text(p, "s."+stored(p), b.field(storedItem, stored(p), p.Name)))
	}
	b.line("}\n")
	b.line("// fill gives the values to an item of a list.\nfunc (s *shown) fill(l *protocol.Listed) {")
	for _, p := range all {
		switch from, to := b.field(storedItem, stored(p), p.Name), b.field("protocol.Listed", p.Field(), p.Name); {
		case isFlag(p):
			b.line("if s.%s {\nl.%s = %q\n}", stored(p), p.Field(), p.Words[0])
		case from == to:
			b.line("l.%s = s.%s", p.Field(), stored(p))
		default:
			b.line("l.%s = %s(s.%s)", p.Field(), inProtocol(to), stored(p))
		}
	}
	b.line("}\n\n// LeaveOutShown takes them from an item of a list that is too large.\nfunc LeaveOutShown(l *protocol.Listed) {\nvar none protocol.Listed")
	for _, p := range all {
		b.line("l.%s = none.%s", p.Field(), p.Field())
	}
	b.line("}")
}

// given has what a link gives along.
func (b *goSource) given() {
	b.line("// eachGiven calls f with the headers by which a link gives along what the item keeps of its push.\nfunc eachGiven(item *fdbpq.Item, f func(name, value string)) {")
	for i := range b.push {
		if p := &b.push[i]; p.Given && p.Stays() {
			kind := b.field("fdbpq.Item", stored(p), p.Name)
			b.line("if item.%s {\nf(%s, %s)\n}", b.isThere(p, false), b.name(p.Name), text(p, "item."+stored(p), kind))
		}
	}
	b.line("}\n")
}

// isThere is a condition: whether there is a value, or, for its room, whether there may be one.
func (b *goSource) isThere(p *protocol.PushHeader, room bool) string {
	if at := slices.IndexFunc(b.staying(), func(of *protocol.PushHeader) bool { return of.Name == p.With }); room && isFlag(p) && at >= 0 {
		return b.isThere(b.staying()[at], false)
	}
	switch p.Type.(type) {
	case int64, protocol.Duration:
		return stored(p) + " != 0"
	case time.Time:
		return stored(p) + " != (time.Time{})"
	}
	if isFlag(p) {
		return stored(p)
	}
	return stored(p) + ` != ""`
}

// room is the length of the longest value.
func room(p *protocol.PushHeader) string {
	switch p.Type.(type) {
	case int64:
		return "maxNumberText"
	case protocol.Duration:
		return fmt.Sprintf("len(%q)", time.Duration(math.MaxInt64).String())
	case time.Time:
		return "maxTimeText"
	}
	if isFlag(p) {
		return fmt.Sprintf("len(%q)", p.Words[0])
	}
	return "len(s." + stored(p) + ")"
}

// inCodec is a type of package fdbpq as package codec names it, and inProtocol one of package protocol.
func inCodec(kind string) string    { return qualified("fdbpq", kind) }
func inProtocol(kind string) string { return qualified("protocol", kind) }

func qualified(by, kind string) string {
	if kind != "" && unicode.IsUpper(rune(kind[0])) {
		return by + "." + kind
	}
	return kind
}

// text is a value of a type as the text of a header.
func text(p *protocol.PushHeader, value, kind string) string {
	switch p.Type.(type) {
	case int64:
		return "strconv.FormatInt(" + value + ", 10)"
	case protocol.Duration:
		return value + ".String()"
	case time.Time:
		return "TimeText(" + value + ")"
	}
	if isFlag(p) {
		return fmt.Sprintf("%q", p.Words[0])
	}
	if kind != "string" {
		return "string(" + value + ")"
	}
	return value
}
