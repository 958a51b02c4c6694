package main

import (
	"fmt"
	"maps"
	"slices"
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
	if numbers := []string{"int", "int64", "uint64"}; from != to && slices.Contains(numbers, from) && slices.Contains(numbers, to) {
		return to + "(" + value + ")"
	}
	return value
}
