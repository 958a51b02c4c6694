package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
)

// headers write the readers and writers of the headers of pushes and items.
type headers struct {
	of     goStructs
	names  map[string]string // of the constants, by their values
	push   []protocol.PushHeader
	ofItem []protocol.ItemHeader
}

// the types of package fdbpq that are made of pushes and imports, and that answers show.
const (
	newItem    = "fdbpq.NewItem"
	importItem = "fdbpq.Import"
	storedItem = "fdbpq.StoredItem"
)

// constant is the constant of a header in Go's source.
func (h *headers) constant(name string) (string, error) {
	if constant := h.names[name]; constant != "" {
		return "protocol." + constant, nil
	}
	return "", fmt.Errorf("protocol/header.go has no constant for %s", name)
}

// isFlag reports whether a header has one word, so that its field is a flag with a name that ends in that word.
func isFlag(p *protocol.PushHeader) bool { return len(p.Words) == 1 }

// stored is the name of the field for a header in package fdbpq.
func stored(p *protocol.PushHeader) string {
	if isFlag(p) {
		return p.Field() + exported(p.Words[0])
	}
	return p.Field()
}

// codecSource has the readers of headers whose values are those of one field, and what answers show of them.
func (h *headers) codecSource() (string, error) {
	b := &goSource{headers: h}
	b.line("package codec\n\nimport (\n%q\n%q\n%q\n)\n", module+"bridge/internal/failure", module+"fdbpq", module+"protocol")
	b.cases("isPush reports whether a push may have a header of ours.", "isPush(key string) bool", h.pushNames())
	b.cases("isShown reports whether a header comes with items, and not with pushes.", "isShown(key string) bool", h.shownNames(func(*protocol.ItemHeader) bool { return true }))
	b.cases("isIgnored reports whether a header describes the answer or the lease, and not the item.", "isIgnored(key string) bool",
		h.shownNames(func(i *protocol.ItemHeader) bool { return i.Back == "" }))
	b.pushReader()
	b.importReader()
	b.given()
	b.shown()
	return b.importing("strconv", "time"), b.wrong
}

const module = "github.com/pqbridge/pqbridge/"

func (h *headers) pushNames() (all []string) {
	for i := range h.push {
		if name := h.push[i].Name; strings.HasPrefix(name, protocol.HeaderPrefix) {
			all = append(all, name)
		}
	}
	return all
}

func (h *headers) shownNames(of func(*protocol.ItemHeader) bool) (all []string) {
	pushed := h.pushNames()
	for i := range h.ofItem {
		if name := h.ofItem[i].Name; strings.HasPrefix(name, protocol.HeaderPrefix) && !slices.Contains(pushed, name) && of(&h.ofItem[i]) {
			all = append(all, name)
		}
	}
	return all
}

// goSource is a file that is being written. wrong is the first mistake.
type goSource struct {
	*headers
	strings.Builder
	wrong error
}

func (b *goSource) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

// importing is the text, with the imports of those packages of Go's that it needs.
func (b *goSource) importing(names ...string) string {
	var needed string
	for _, name := range names {
		if strings.Contains(b.String(), name+".") {
			needed += strconv.Quote(name) + "\n"
		}
	}
	if needed == "" {
		return b.String()
	}
	return strings.Replace(b.String(), "import (\n", "import (\n"+needed+"\n", 1)
}

func (b *goSource) fail(err error) {
	if b.wrong == nil {
		b.wrong = err
	}
}

// name is the constant of a header.
func (b *goSource) name(header string) string {
	constant, err := b.constant(header)
	if err != nil {
		b.fail(err)
	}
	return constant
}

// field is the type of a field, which has to be there.
func (b *goSource) field(of, name, header string) string {
	s, err := b.of.get(of)
	if err != nil {
		b.fail(err)
		return ""
	}
	f, is := b.of.field(s, name)
	if !is {
		b.fail(fmt.Errorf("%s has no field %s for the header %s: write it, or mark the row of the header Own in protocol/pushheaders.go", of, name, header))
	}
	return f.kind
}

// cases writes a function that reports whether a text is one of some headers.
func (b *goSource) cases(doc, signature string, all []string) {
	var names []string
	for _, one := range all {
		names = append(names, b.name(one))
	}
	b.line("// %s\nfunc %s {\nswitch key {\ncase %s:\nreturn true\n}\nreturn false\n}\n", doc, signature, strings.Join(names, ",\n"))
}

// pushReader reads the headers of a push.
func (b *goSource) pushReader() {
	b.line("// readPushed reads a header of a push whose value is that of one field, and reports whether the header is such a one.")
	b.line("func readPushed(item *fdbpq.NewItem, key, value string) (known bool, f *failure.Failure) {\nswitch key {")
	for i := range b.push {
		if p := &b.push[i]; !p.Own {
			kind := b.field(newItem, stored(p), p.Name)
			b.line("case %s:\nitem.%s, f = %s", b.name(p.Name), stored(p), b.read(p, kind))
		}
	}
	b.line("default:\nreturn false, nil\n}\nreturn true, f\n}\n")
}

// read is the call that reads the value of a header of a push into a field of a type.
func (b *goSource) read(p *protocol.PushHeader, kind string) string {
	var words []string
	for _, word := range p.Words {
		words = append(words, strconv.Quote(word))
	}
	if p.Rule {
		return "Read" + p.Field() + "(key, value)"
	}
	switch p.Type.(type) {
	case int64:
		return fmt.Sprintf("ParseInteger(key, value, 1, %s)", grouped(strconv.FormatInt(p.Most, 10)))
	case protocol.Duration:
		return "ReadDuration(key, value, 1, fdbpq.MaxDelay)"
	case time.Time:
		return "ParseTime(key, value)"
	}
	switch {
	case isFlag(p):
		return "readFlag(key, value, " + words[0] + ")"
	case words != nil && kind != "string":
		return "readWord[fdbpq." + kind + "](key, value, " + strings.Join(words, ", ") + ")"
	case words != nil:
		return "readWord[string](key, value, " + strings.Join(words, ", ") + ")"
	}
	return fmt.Sprintf("readUTF8(key, value, %d)", p.Most)
}

// importReader reads the headers of an item that is put back.
func (b *goSource) importReader() {
	b.line("// readBack does the same for an item that is put back to its place.")
	b.line("func readBack(item *fdbpq.Import, key, value string) (known bool, f *failure.Failure) {\nswitch key {")
	for i := range b.ofItem {
		h := &b.ofItem[i]
		if at := slices.IndexFunc(b.push, func(p protocol.PushHeader) bool { return p.Name == h.Name && p.Stays() }); at >= 0 {
			p := &b.push[at]
			kind := b.field(importItem, stored(p), p.Name)
			b.line("case %s:\nitem.%s, f = %s", b.name(p.Name), stored(p), b.read(p, kind))
			continue
		}
		to := "item." + h.Back
		if of, field, inner := strings.Cut(h.Back, "."); inner {
			to = strings.ToLower(of) + "Of(item)." + field
		}
		switch {
		case h.Back == "" || b.isPushed(h.Name) && h.Name != protocol.HeaderNotBefore:
		case isTime(h.Type) && h.Back != protocol.KeptHeader:
			b.line("case %s:\n%s, f = ParseTime(key, value)", b.name(h.Name), to)
		case isNumber(h.Type) && h.Back != protocol.KeptHeader:
			b.line("case %s:\n%s, f = parseNumber(key, value)", b.name(h.Name), to)
		}
	}
	b.line("default:\nreturn false, nil\n}\nreturn true, f\n}\n")
}

func (h *headers) isPushed(name string) bool { return slices.Contains(h.pushNames(), name) }

func isTime(value any) bool   { _, is := value.(time.Time); return is }
func isNumber(value any) bool { _, is := value.(int64); return is }
