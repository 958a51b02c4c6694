package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// conversion is a function that makes a value of a struct from another one: each field from the one of the same name.
type conversion struct {
	doc, signature string
	from, to       string            // structs, by folder and name
	result         string            // the type of the result in the function
	renamed        map[string]string // the field from which one of another name comes
	other          map[string]string // fields that do not come from one field, and why
}

var listedOfAnswer = conversion{
	doc:       "listed is an item of a list as the client shows it.",
	signature: "listed(i *protocol.Listed) Listed",
	from:      "protocol.Listed", to: "client.Listed", result: "Listed",
	renamed: map[string]string{"Header": "Headers"},
}

// listSource has the items of the Go client's lists.
func (h *headers) listSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package client\n\nimport %q\n", module+"protocol")
	b.conversion(listedOfAnswer)
	return b.String(), b.wrong
}

// What an item has from elsewhere than from the fields of another one.
const (
	asHeaders = "SetHeaders sets it"
	asPayload = "SetPayload sets it"
	ofQueue   = "who asks knows the queue"
	ofAnswers = "answers with the item alone say it"
	ofLists   = "lists alone say it"
)

var itemOfListed = conversion{
	doc:       "Item is the item as exports have it, without its payload.",
	signature: "(i *Listed) Item() Item",
	from:      "protocol.Listed", to: "protocol.Item", result: "Item",
	other: map[string]string{
		"Headers": asHeaders, "RawHeaders": asHeaders, "Payload": asPayload, "Base64": asPayload, "Queue": ofQueue,
		"WaitsFor": ofAnswers, "KeyAhead": ofAnswers, "Explain": ofAnswers, "Ack": ofAnswers, "LeaseExpires": ofAnswers, "Backoff": ofAnswers,
		"Schedule": ofAnswers, "ScheduledAt": ofAnswers, "Source": ofAnswers,
	},
}

var shownOfListed = conversion{
	doc:       "ofListed is an item of a list, without its payload and its headers.",
	signature: "ofListed(i *client.Listed) protocol.Item",
	from:      "client.Listed", to: "protocol.Item", result: "protocol.Item",
	other: itemOfListed.other,
}

var shownOfItem = conversion{
	doc:       "ofAnswer is an item that was popped, peeked at or got, without its payload, its headers and its lease.",
	signature: "ofAnswer(i *client.Item) protocol.Item",
	from:      "client.Item", to: "protocol.Item", result: "protocol.Item",
	other: map[string]string{
		"Headers": asHeaders, "RawHeaders": asHeaders, "Payload": asPayload, "Base64": asPayload,
		"Due": "a lease has its own", "Ack": "a method has it", "LeaseExpires": "a method has it", "Backoff": "as text",
		"Since": ofLists, "Expires": ofLists, "Size": ofLists, "Cause": ofLists,
	},
}

var importOfItem = conversion{
	doc:       "Import is the item to be put back at its place, but for its headers, its payload and its delay.",
	signature: "Import(i *protocol.Item) *client.Import",
	from:      "protocol.Item", to: "client.Import", result: "&client.Import",
	renamed: map[string]string{"Attempts": "LastAttempts"},
	other:   map[string]string{"Header": "AllHeaders has it", "Payload": "Bytes has it", "NotBefore": "Due of a delayed item"},
}

// listedSource has the items of lists as exports have them.
func (h *headers) listedSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package protocol\n")
	b.conversion(itemOfListed)
	return b.String(), b.wrong
}

// showSource has the items that pq shows and imports.
func (h *headers) showSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package show\n\nimport (\n%q\n%q\n)\n", module+"client", module+"protocol")
	b.conversion(shownOfItem)
	b.conversion(shownOfListed)
	b.conversion(importOfItem)
	b.pushWriter()
	return b.importing("fmt", "time"), b.wrong
}

// pushWriter writes the headers of a push of an item of an export.
func (b *goSource) pushWriter() {
	b.line("// PushHeaders are the headers with which a push gives a new item what an item says.")
	b.line("func PushHeaders(i *protocol.Item) map[string][]string {\nheader := make(map[string][]string)")
	for at := range b.push {
		h := &b.push[at]
		if !h.Stays() {
			continue
		}
		there, value := "i."+h.Field()+` != ""`, "i."+h.Field()
		switch kind := b.field("protocol.Item", h.Field(), h.Name); {
		case isFlag(h):
			value = strconv.Quote(h.Words[0])
		case kind != "string":
			there, value = "i."+h.Field()+" != 0", "fmt.Sprint("+value+")"
		}
		b.line("if %s {\nheader[%s] = []string{%s}\n}", there, b.name(h.Name), value)
	}
	b.line("return header\n}")
}

// conversion writes the function.
func (b *goSource) conversion(c conversion) {
	from, err := b.of.get(c.from)
	if err != nil {
		b.fail(err)
		return
	}
	to, err := b.of.get(c.to)
	if err != nil {
		b.fail(err)
		return
	}
	b.line("// %s\nfunc %s {\nreturn %s{", c.doc, c.signature, c.result)
	left := maps.Clone(c.other)
	for _, f := range to.fields {
		name := f.name
		if other := c.renamed[name]; other != "" {
			name = other
		}
		at := slices.IndexFunc(from.fields, func(f goField) bool { return f.name == name })
		switch _, is := left[f.name]; {
		case is:
			delete(left, f.name)
		case strings.ToLower(f.name[:1]) == f.name[:1]: // of the package alone
		case at < 0:
			b.fail(fmt.Errorf("%s has no field %s for %s: write it, or say in internal/generate/conversion.go why %s has it from elsewhere", c.from, name, c.to, f.name))
		default:
			b.line("%s: %s,", f.name, converted("i."+name, from.fields[at].kind, f.kind))
		}
	}
	if len(left) > 0 {
		b.fail(fmt.Errorf("internal/generate/conversion.go: %s has no fields %v", c.to, slices.Sorted(maps.Keys(left))))
	}
	b.line("}\n}\n")
}

// converted is a value as one of another type.
func converted(value, from, to string) string {
	numbers, durations := []string{"int", "int64", "uint64"}, []string{"Duration", "time.Duration"}
	switch {
	case from == to:
		return value
	case slices.Contains(numbers, from) && slices.Contains(numbers, to):
		return to + "(" + value + ")"
	case slices.Contains(durations, from) && slices.Contains(durations, to):
		return inProtocol(to) + "(" + value + ")"
	}
	return value
}
