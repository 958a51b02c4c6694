package protocol_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

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
