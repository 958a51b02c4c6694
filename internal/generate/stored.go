package main

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// storedSource has the configuration as the store keeps it, its defaults and its bounds.
func storedSource(fields []field) string {
	var b strings.Builder
	b.WriteString("package fdbpq\n\nimport \"time\"\n\n// Config is what the owner of a queue can set. It is stored with the queue.\ntype Config struct {\n")
	for i, f := range fields {
		if i > 0 {
			b.WriteString("\n")
		}
		tag := f.name
		if f.standard == "" {
			tag += ",omitzero"
		}
		fmt.Fprintf(&b, "// %s\n%s %s `json:%q`\n", plain(f.doc), f.goName, f.storedType(), tag)
	}
	b.WriteString("}\n\n")
	writeWords(&b, fields)
	writeConstants(&b, fields)
	b.WriteString("func defaultConfig() Config {\nreturn Config{\n")
	for _, f := range fields {
		if f.standard != "" {
			fmt.Fprintf(&b, "%s: %s,\n", f.goName, f.storedDefault())
		}
	}
	b.WriteString("}\n}\n\n")
	writeVersion(&b, fields)
	b.WriteString("// checkBounds returns an error for the first field that is beyond its bounds.\nfunc (c *Config) checkBounds() error {\n")
	for _, f := range fields {
		f.writeCheck(&b)
	}
	b.WriteString("return nil\n}\n")
	return b.String()
}

// storedType is the type of the field in the store.
func (f *field) storedType() string {
	if f.core != "" {
		return strings.TrimSuffix(f.core, ".String")
	}
	return strings.TrimPrefix(f.kind.String(), "protocol.")
}

func (f *field) storedDefault() string {
	switch {
	case f.words != nil:
		return f.core + exported(f.standard)
	case f.isDuration():
		return "Duration(Default" + f.goName + ")"
	}
	return "Default" + f.goName
}

// writeWords writes the types of fields whose values are words.
func writeWords(b *strings.Builder, fields []field) {
	for _, f := range fields {
		if f.words == nil {
			continue
		}
		fmt.Fprintf(b, "// %s is what [Config.%s] may be.\ntype %s string\n\nconst (\n", f.core, f.goName, f.core)
		for _, word := range f.words {
			fmt.Fprintf(b, "%s%s %s = %q\n", f.core, exported(word), f.core, word)
		}
		b.WriteString(")\n\n")
	}
}

func writeConstants(b *strings.Builder, fields []field) {
	b.WriteString("// The defaults of a queue without a configuration.\nconst (\n")
	for _, f := range fields {
		if f.standard != "" && f.words == nil {
			value, _ := f.goValue(f.standard) // read before
			fmt.Fprintf(b, "Default%s = %s\n", f.goName, value)
		}
	}
	b.WriteString(")\n\n// The bounds of settings.\nconst (\n")
	for _, f := range fields {
		if f.max == "" {
			continue
		}
		value, _ := f.goValue(f.max)
		fmt.Fprintf(b, "Max%s = %s", f.goName, value)
		if f.why != "" {
			fmt.Fprintf(b, " // %s", f.why)
		}
		b.WriteString("\n")
	}
	b.WriteString(")\n\n")
}

// writeVersion writes the version of a queue's state that a configuration needs.
func writeVersion(b *strings.Builder, fields []field) {
	used := make(map[int][]string) // by version: conditions, any of which needs it
	for _, f := range fields {
		used[f.since] = append(used[f.since], f.isUsed())
	}
	versions := slices.Sorted(maps.Keys(used))
	slices.Reverse(versions)
	fmt.Fprintf(b, "// newestField is the version of the newest field.\nconst newestField = %d\n\n", versions[0])
	b.WriteString("// version is that of the first program that keeps all fields of the configuration.\nfunc (c *Config) version() int64 {\n")
	for _, version := range versions {
		if version > firstVersion {
			fmt.Fprintf(b, "if %s {\nreturn %d\n}\n", strings.Join(used[version], " || "), version)
		}
	}
	fmt.Fprintf(b, "return %d\n}\n\n", firstVersion)
}

// isUsed is a condition in Go's source: whether somebody has set the field.
func (f *field) isUsed() string {
	value := "c." + f.goName
	switch {
	case f.standard != "":
		return value + " != " + f.storedDefault()
	case f.isBool():
		return value
	case f.isText() && strings.HasSuffix(f.core, ".String"):
		return value + " != (" + f.storedType() + "{})"
	case f.isText():
		return value + ` != ""`
	}
	return value + " != 0"
}

// writeCheck writes the check that refuses values beyond the field's bounds.
func (f *field) writeCheck(b *strings.Builder) {
	refuse := func(condition, format string, args ...string) {
		fmt.Fprintf(b, "if %s {\nreturn configError(%s, %s)\n}\n", condition, quoted(f.name+format), strings.Join(args, ", "))
	}
	value, most := "c."+f.goName, "Max"+f.goName
	if f.maxLen > 0 {
		most := strconv.Itoa(f.maxLen)
		refuse("n := len("+value+"); n > "+most, " has %d bytes: allowed are "+most, "n")
	}
	if f.names {
		refuse("!areNames("+value+")", " is %q: expected names of queues separated by commas, or *", value)
	}
	if f.notNegative {
		refuse(value+" < 0", " is %d: it cannot be negative", value)
	}
	switch {
	case f.max == "":
	case f.isDuration():
		refuse(value+" < 0 || "+value+" > Duration("+most+")", " is %s: allowed are 0s to %s", value, most)
	case f.notNegative:
		refuse(value+" > "+most, " is %d: allowed are 0"+f.zeroText()+" to %d", value, most)
	default:
		refuse(value+" < 0 || "+value+" > "+most, " is %d: allowed are 0"+f.zeroText()+" to %d", value, most)
	}
	if f.words != nil {
		var other, words []string
		for _, word := range f.words {
			other = append(other, value+" != "+f.core+exported(word))
			words = append(words, f.core+exported(word))
		}
		refuse(strings.Join(other, " && "), " is %q: allowed are "+strings.Repeat("%q, ", len(words)-2)+"%q and %q", append([]string{value}, words...)...)
	}
}

// zeroText says in an error what 0 stands for.
func (f *field) zeroText() string {
	if f.zero == "" {
		return ""
	}
	return ", for " + f.zero + ","
}
