package main

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// A header that a struct has no field for is an error that names both, and so is a field that does not come from the one of the same name.
func TestHeadersWithoutFields(t *testing.T) {
	t.Parallel()
	of, err := readStructs(root, "protocol", "fdbpq", "client")
	if err != nil {
		t.Fatal(err)
	}
	names, err := headerNames(root)
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]func(*headers) (string, error){
		"codec": (*headers).codecSource, "client": (*headers).clientSource, "import": (*headers).importSource, "list": (*headers).listSource,
		"gateway": (*headers).gatewaySource, "listed": (*headers).listedSource, "show": (*headers).showSource,
	}
	for _, tc := range []struct{ lacks, source, says string }{
		{"fdbpq.NewItem.Unique", "codec", "fdbpq.NewItem has no field Unique for the header PQ-Unique"},
		{"fdbpq.Import.UniqueUntilLeased", "codec", "fdbpq.Import has no field UniqueUntilLeased for the header PQ-Unique-Until"},
		{"fdbpq.StoredItem.Unique", "codec", "fdbpq.StoredItem has no field Unique"},
		{"fdbpq.Item.Key", "codec", "fdbpq.Item has no field Key"},
		{"protocol.Listed.Unique", "codec", "protocol.Listed has no field Unique"},
		{"client.Item.Holder", "client", "client.Item has no field Holder for the header PQ-Holder"},
		{"client.Import.Expires", "import", "client.Import has no field Expires for the header PQ-Expires"},
		{"protocol.Listed.Cause", "list", "protocol.Listed has no field Cause for client.Listed"},
		{"client.Listed.Cause", "show", "client.Listed has no field Cause for protocol.Item"},
		{"protocol.Item.Source", "show", "protocol.Item has no fields [Source]"},
		{"protocol.Item.Ack", "gateway", "protocol.Item has no field Ack for the header PQ-Ack"},
		{"protocol.Item.Payload", "listed", "protocol.Item has no fields [Payload]"},
	} {
		name, field, _ := cutLast(tc.lacks)
		h := &headers{of: maps.Clone(of), names: names, push: protocol.PushHeaders, ofItem: protocol.ItemHeaders}
		whole := h.of[name]
		h.of[name] = &goStruct{whole.folder, whole.name, slices.DeleteFunc(slices.Clone(whole.fields), func(f goField) bool { return f.name == field })}
		if _, err := sources[tc.source](h); err == nil || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("without %s: %v. Expected %s", tc.lacks, err, tc.says)
		}
	}
	h := &headers{of: of, names: maps.Clone(names), push: protocol.PushHeaders, ofItem: protocol.ItemHeaders}
	delete(h.names, protocol.HeaderHolder)
	if _, err := h.codecSource(); err == nil || !strings.Contains(err.Error(), "no constant for PQ-Holder") {
		t.Errorf("without a constant: %v", err)
	}
}

func cutLast(name string) (before, behind string, is bool) {
	at := strings.LastIndexByte(name, '.')
	return name[:at], name[at+1:], at >= 0
}

// A plain header of each kind needs no line by hand to be read, shown, counted and taken back.
func TestPlainHeaders(t *testing.T) {
	t.Parallel()
	of, err := readStructs(root, "protocol", "fdbpq", "client")
	if err != nil {
		t.Fatal(err)
	}
	names, err := headerNames(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		header protocol.PushHeader
		kind   string
		reads  []string
	}{
		{protocol.PushHeader{Type: "", Most: 64}, "string", []string{`readUTF8(key, value, 64)`, `if s.New != "" {`, `f(protocol.HeaderNew, s.New)`, `len(s.New) + lineFrame`, "l.New = s.New"}},
		{protocol.PushHeader{Type: int64(0), Most: 5000}, "int64", []string{`ParseInteger(key, value, 1, 5000)`, `if s.New != 0 {`, `strconv.FormatInt(s.New, 10)`, "maxNumberText + lineFrame", "l.New = s.New"}},
		{protocol.PushHeader{Type: protocol.Duration(0)}, "time.Duration", []string{`ReadDuration(key, value, 1, fdbpq.MaxDelay)`, `s.New.String()`, `len("2562047h47m16.854775807s") + lineFrame`, "\"time\"\n"}},
		{protocol.PushHeader{Type: "", Words: []string{"low", "high"}}, "Urgency", []string{`readWord[fdbpq.Urgency](key, value, "low", "high")`, `string(s.New)`, "l.New = string(s.New)"}},
	} {
		p := tc.header
		p.Name, p.Word, p.Shown = "PQ-New", "new", "PQ-New"
		h := &headers{of: maps.Clone(of), names: maps.Clone(names), push: append(slices.Clone(protocol.PushHeaders), p),
			ofItem: append(slices.Clone(protocol.ItemHeaders), protocol.ItemHeader{Name: p.Name, Field: "New", Back: "New", Type: p.Type})}
		h.names[p.Name] = "HeaderNew"
		kinds := map[string]string{newItem: tc.kind, importItem: tc.kind, storedItem: tc.kind, "protocol.Listed": tc.kind}
		if tc.header.Words != nil {
			kinds["protocol.Listed"] = "string"
		}
		for name, kind := range kinds {
			s := h.of[name]
			h.of[name] = &goStruct{s.folder, s.name, append(slices.Clone(s.fields), goField{name: "New", kind: kind})}
		}
		text, err := h.codecSource()
		if err == nil {
			_, err = formatted("x.go", text)
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range tc.reads {
			if !strings.Contains(text, part) {
				t.Errorf("a header of %s: the codec lacks %s", tc.kind, part)
			}
		}
	}
}
