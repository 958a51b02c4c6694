package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/protocol"
)

// pageRegion is the list of the fields in docs/protocol/admin.md.
func pageRegion(fields []field) string {
	var b strings.Builder
	b.WriteString("\n") // a list ends what is in front of it
	for _, f := range fields {
		fmt.Fprintf(&b, "- `%s` (`%s`", f.name, f.jsonDefault())
		for _, word := range f.words {
			if word != f.standard {
				fmt.Fprintf(&b, " or `%q`", word)
			}
		}
		switch {
		case f.max != "":
			fmt.Fprintf(&b, ", up to %s", f.max)
		case f.maxLen > 0:
			fmt.Fprintf(&b, ", up to %d bytes", f.maxLen)
		}
		fmt.Fprintf(&b, "): %s", asPart(f.doc))
		if f.more != "" {
			fmt.Fprintf(&b, ". %s", strings.TrimSuffix(f.more, "."))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
	return b.String()
}

// confRegion has the requests of a role in a list of deploy/nats.conf.
func (g *grammar) confRegion(before string, role protocol.Roles) string {
	var b strings.Builder
	for _, pattern := range g.of(role) {
		fmt.Fprintf(&b, "        %q\n", before+pattern)
	}
	return b.String()
}

// openAPIRegion is the schema of a configuration in openapi.yaml. It has no defaults, because the schema also
// describes a change, in which a missing field stays as it is.
func openAPIRegion(fields []field) string {
	var b strings.Builder
	b.WriteString("    Config:\n      type: object\n      properties:\n")
	for _, f := range fields {
		fmt.Fprintf(&b, "        %s: { %sdescription: %s }\n", f.name, openAPIType(&f), strconv.Quote(asPart(plain(f.doc))))
	}
	return b.String()
}

func openAPIType(f *field) string {
	switch {
	case f.isDuration():
		return "type: string, "
	case f.isInt():
		text := "type: integer, format: int64, "
		if f.notNegative || f.max != "" {
			text += "minimum: 0, "
		}
		if f.max != "" {
			text += "maximum: " + f.max + ", "
		}
		return text
	case f.isBool():
		return "type: boolean, "
	case f.words != nil:
		return "type: string, enum: [" + strings.Join(f.words, ", ") + "], "
	case f.core == "Backoff":
		return "type: [string, object, array], "
	case f.core == "Most":
		return "type: [string, integer], "
	case f.maxLen > 0:
		return fmt.Sprintf("type: string, maxLength: %d, ", f.maxLen)
	}
	return "type: string, "
}
