package protocol_test

import (
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// pushHeader is a header with the spellings of its names.
type pushHeader struct{ *protocol.PushHeader }

func (h pushHeader) word() string   { return h.Word }
func (h pushHeader) called() string { return "the header " + h.Name + " of a push" }

// field is the field of an item in JSON.
func (h pushHeader) field() string {
	if h.Shown == protocol.HeaderNotBefore {
		return "due"
	}
	return strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(h.Shown, protocol.HeaderPrefix), "-", "_"))
}

func (h pushHeader) inJS() string      { return camel(strings.ReplaceAll(h.Word, "_", " ")) }
func (h pushHeader) fieldInJS() string { return camel(strings.ReplaceAll(h.field(), "_", " ")) }

// shownInJS is the field of an item in JavaScript, which has one for the end of a lease and one for that of a delay.
func (h pushHeader) shownInJS() string {
	return camel(strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(h.Shown, protocol.HeaderPrefix), "-", " ")))
}

func isShown(h pushHeader) bool  { return h.Shown != "" }
func isMapped(h pushHeader) bool { return h.Mapped }

func named(h pushHeader) string     { return strconv.Quote(h.Name) }
func nameShown(h pushHeader) string { return strconv.Quote(h.Shown) }
func inTicks(h pushHeader) string   { return "`" + h.Name + "`" }

// handsOver is the reason why settle is no option.
const handsOver = "the method that hands an item over sends it"

// ofHeaders are the places of the clients in other languages and of the pages that have something for each header of a push. The readers and writers
// in Go follow from the table.
var ofHeaders = []surface[pushHeader]{
	{file: "clients/js/src/push.js", what: "its name", text: named},
	{file: "clients/js/src/push.js", what: "an option", within: `\["priority", "headers".*\]`, text: func(h pushHeader) string { return strconv.Quote(h.inJS()) }, absent: map[string]string{"settle": handsOver}},
	{file: "clients/js/index.d.ts", what: "an option", within: `(?s)export interface ItemOptions \{.*?\n\}`, text: func(h pushHeader) string { return "\n  " + h.inJS() + "?: " }, absent: map[string]string{"settle": handsOver}},
	{file: "clients/python/pqbridge/push.py", what: "its name", text: named},
	{file: "clients/python/pqbridge/push.py", what: "a field of NewItem", within: `(?s)class NewItem:.*?\n    def `, text: func(h pushHeader) string { return "\n    " + h.Word + ": " }, absent: map[string]string{"settle": handsOver}},
	{file: "clients/python/pqbridge/push.py", what: "a field of PushOptions", within: `(?s)class PushOptions\(.*?\n\n\n`, text: func(h pushHeader) string { return "\n    " + h.Word + ": " }, absent: map[string]string{"settle": handsOver}},
	{file: "clients/python/pqbridge/queue.py", what: "an argument of push", within: `(?s)async def push\(.*?\) -> `, text: func(h pushHeader) string { return " " + h.Word + ": " }, absent: map[string]string{"settle": handsOver}},

	{file: "docs/protocol.md", what: "its line in the list of headers", within: `(?s)\n## Headers\n.*?\n## `, text: inTicks},
	{file: "docs/protocol/push.md", what: "a line that describes it", text: func(h pushHeader) string { return "\n- " + inTicks(h) + ":" }},
	{file: "docs/http.md", what: "the parameter", within: `.*/push` + "`" + ` \(.*`, text: func(h pushHeader) string { return "`" + h.Word + "`" }},

	{file: "clients/js/index.d.ts", what: "a field of SourceMap", within: `export type SourceMap = .*`, of: isMapped, text: func(h pushHeader) string { return strconv.Quote(h.Word) }},
	{file: "clients/python/pqbridge/sources.py", what: "a field of SourceMap", within: `(?s)class SourceMap\(.*?\n\n\n`, of: isMapped, text: func(h pushHeader) string { return "\n    " + h.Word + ": " }},
	{file: "docs/protocol/sources.md", what: "a property of items", within: "- `map`.*", of: isMapped, text: func(h pushHeader) string { return "`" + h.Word + "`" }},

	{file: "clients/js/src/itemdata.js", what: "the header that items show", of: isShown, text: nameShown},
	{file: "clients/python/pqbridge/item_data.py", what: "the header that items show", of: isShown, text: nameShown},
	{file: "clients/python/pqbridge/imported.py", what: "the header that items show", of: isShown, text: nameShown},
	{file: "docs/protocol/import.md", what: "the header that items show", of: isShown, text: func(h pushHeader) string { return "`" + h.Shown + "`" }},
	{file: "docs/protocol/items.md", what: "the header that items show", of: isShown, text: func(h pushHeader) string { return "`" + h.Shown + "`" },
		absent: map[string]string{"priority": "each item has it: docs/protocol/pop.md", "key": "each item has it: docs/protocol/pop.md"}},

	{file: "clients/js/index.d.ts", what: "a field of an item", of: isShown, text: func(h pushHeader) string {
		return "\n  readonly " + h.shownInJS()
	}},
	{file: "clients/js/index.d.ts", what: "a field of Listed", within: `(?s)export interface Listed \{.*?\n\}`, of: isShown, text: func(h pushHeader) string {
		return "\n  " + h.fieldInJS()
	}},
	{file: "clients/js/src/list.js", what: "the field of an answer", of: isShown, text: func(h pushHeader) string { return "." + h.field() }},
	{file: "clients/python/pqbridge/listing.py", what: "the field of an answer", of: isShown, text: func(h pushHeader) string { return strconv.Quote(h.field()) }},
}

// Each surface has each header of the table, unless it says why not.
func TestPushHeaders(t *testing.T) {
	t.Parallel()
	var all []pushHeader
	for i := range protocol.PushHeaders {
		all = append(all, pushHeader{&protocol.PushHeaders[i]})
	}
	for i := range ofHeaders {
		ofHeaders[i].check(t, all)
	}
}

// The row of a header has what its readers need.
func TestPushHeaderRows(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, h := range protocol.PushHeaders {
		if row := fmt.Sprintf("%+v", h); seen[h.Name] || seen[h.Word] || h.Word == "" || h.Type == nil || h.Doc == "" || strings.HasSuffix(h.Doc, ".") {
			t.Errorf("%s: a second one of its name, or a field is missing, or its Doc is no part of a sentence", row)
		}
		if (h.Always || h.Given) && h.Shown == "" || h.Rule && (h.Own || h.Words != nil) || h.With != "" && !seen[h.With] {
			t.Errorf("%s: expected Always and Given of what is shown, Rule of a text without words that is not Own, and With of a header above", h.Name)
		}
		seen[h.Name], seen[h.Word] = true, true
	}
}

// otherFields are the fields in JSON that have another name than their headers.
var otherFields = map[string]string{
	protocol.HeaderTimeStamp: "pushed",
	protocol.HeaderNotBefore: "due",
	protocol.HeaderAttempts:  "last_attempts",
	protocol.HeaderSource:    "source_name",
	protocol.HeaderOrigin:    "dead_origin",
	protocol.HeaderOriginID:  "dead_origin_id",
}

// otherBack are the fields of an import that have another name than those of an item.
var otherBack = map[string]string{protocol.HeaderNotBefore: "NotBefore", protocol.HeaderAttempts: "Attempts"}

// The row of a header of items names the field that JSON calls as the header is called, and an import takes the value back into the field
// of the same name.
func TestItemHeaderRows(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, h := range protocol.ItemHeaders {
		if seen[h.Name] || h.Type == nil {
			t.Errorf("%s has two rows, or no type", h.Name)
		}
		seen[h.Name] = true
		want := otherFields[h.Name]
		if want == "" {
			want = strings.ToLower(strings.ReplaceAll(strings.TrimPrefix(h.Name, protocol.HeaderPrefix), "-", "_"))
		}
		if got := inJSON(reflect.TypeFor[protocol.Item](), h.Field); h.Field != "" && got != want {
			t.Errorf("%s stands in the field %s, in JSON %q: expected %q", h.Name, h.Field, got, want)
		}
		back := otherBack[h.Name]
		if back == "" {
			back = h.Field
		}
		if h.Back != "" && h.Back != protocol.KeptHeader && h.Back != back {
			t.Errorf("%s comes back into the field %s of an import: expected %s", h.Name, h.Back, back)
		}
	}
}

// inJSON is the name in JSON of a field, or of one of a part, with the name of the part in front.
func inJSON(of reflect.Type, path string) string {
	var names []string
	for part := range strings.SplitSeq(path, ".") {
		if of.Kind() == reflect.Pointer {
			of = of.Elem()
		}
		field, is := of.FieldByName(part)
		if !is {
			return ""
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		names, of = append(names, name), field.Type
	}
	return strings.Join(names, "_")
}
