package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// readByHand are the fields of an item that readers fill from headers in a way of their own.
var readByHand = []string{"Explain", "LastAttempts"}

// clientLacks says of headers of items why an item of the Go client has no field for them.
var clientLacks = map[string]string{
	"Ack":          "the handle of the lease has it",
	"LeaseExpires": "an extension changes it, so a method returns it",
	"Expires":      "lists show when an item expires",
}

// fieldReader writes a function that says in which field of an item the value of a header stands.
func (b *goSource) fieldReader(of string, in string, lacks map[string]string) {
	b.line("// fieldOf is the field of an item for the value of a header; nil: no field has it as it is.\nfunc fieldOf(i *%s, header string) any {\nswitch header {", in)
	s, err := b.of.get(of)
	if err != nil {
		b.fail(err)
		return
	}
	for i := range b.ofItem {
		h := &b.ofItem[i]
		part, inner, isPart := strings.Cut(h.Field, ".")
		_, is := b.of.field(s, part)
		switch why := lacks[h.Field]; {
		case h.Field == "" || part == "Source" || slices.Contains(readByHand, h.Field): // protocol.ReadItemSource reads what is about a source
		case is && why != "":
			b.fail(fmt.Errorf("%s has the field %s: clientLacks says why it has none", of, h.Field))
		case !is && why == "":
			b.fail(fmt.Errorf("%s has no field %s for the header %s: write it", of, h.Field, h.Name))
		case is && isPart:
			b.line("case %s:\nreturn &deathOf(i).%s", b.name(h.Name), inner)
		case is:
			b.line("case %s:\nreturn &i.%s", b.name(h.Name), h.Field)
		}
	}
	b.line("}\nreturn nil\n}\n")
}

// gatewaySource has the fields of an item over HTTP.
func (h *headers) gatewaySource() (string, error) {
	b := &goSource{headers: h}
	b.line("package gateway\n\nimport %q\n", module+"protocol")
	b.fieldReader("protocol.Item", "item", nil)
	return b.String(), b.wrong
}

// clientSource has the fields of the Go client's items.
func (h *headers) clientSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package client\n\nimport %q\n", module+"protocol")
	b.fieldReader("client.Item", "Item", clientLacks)
	return b.String(), b.wrong
}

// importSource has the headers of the Go client's imports.
func (h *headers) importSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package client\n\nimport (\n%q\n\n%q\n\n%q\n)\n", "strconv", "github.com/nats-io/nats.go", module+"protocol")
	b.importWriter()
	return b.String(), b.wrong
}

// importWriter writes the headers of an import.
func (b *goSource) importWriter() {
	b.line("// setHeaders sets the headers that say what an import knows, its attempts aside.\nfunc setHeaders(header nats.Header, i *Import) {")
	s, err := b.of.get("client.Import")
	if err != nil {
		b.fail(err)
		return
	}
	death, err := b.of.get("protocol.Death")
	if err != nil {
		b.fail(err)
		return
	}
	var ofDeath []string
	for at := range b.ofItem {
		h := &b.ofItem[at]
		if h.Back == "" || h.Back == protocol.KeptHeader || slices.Contains(readByHand, h.Field) {
			continue
		}
		_, inner, isPart := strings.Cut(h.Back, ".")
		of, name, value := s, h.Back, "i."+h.Back
		if isPart {
			of, name, value = death, inner, "d."+inner
		}
		f, is := b.of.field(of, name)
		if !is {
			b.fail(fmt.Errorf("client.Import has no field %s for the header %s: write it", h.Back, h.Name))
		}
		line := fmt.Sprintf("%s(header, %s, %s)", setter(f.kind), b.name(h.Name), value)
		switch {
		case isPart:
			ofDeath = append(ofDeath, line)
		case h.Name == protocol.HeaderPriority:
			b.line("header.Set(%s, strconv.FormatInt(%s, 10)) // 0 is one", b.name(h.Name), value)
		default:
			b.line("%s", line)
		}
	}
	b.line("if d := i.Dead; d != nil {\n%s\n}\n}\n", strings.Join(ofDeath, "\n"))
}

// setter is the function that sets a header to a value of a type, unless it is zero.
func setter(kind string) string {
	switch kind {
	case "string":
		return "setText"
	case "time.Time":
		return "setTime"
	case "time.Duration":
		return "setDuration"
	}
	return "setNumber"
}
