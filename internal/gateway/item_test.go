package gateway

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
)

// An item over HTTP has what each header says. One that cannot be read is an error.
func TestItemHeaders(t *testing.T) {
	t.Parallel()
	for _, h := range protocol.ItemHeaders {
		if h.Field == "" || h.Name == protocol.HeaderExplain || h.Name == protocol.HeaderAttempts {
			continue // in JSON
		}
		value, want, wrong := "x", "x", ""
		switch h.Type.(type) {
		case int64:
			value, want, wrong = "7", "7", "seven"
		case protocol.Duration:
			value, want = "1m30s", "1m30s"
			if h.Name != protocol.HeaderBackoff { // which stays a text
				wrong = "soon"
			}
		case time.Time:
			value, want, wrong = "2001-02-03T04:05:06Z", "2001-02-03 04:05:06 +0000 UTC", "soon"
		}
		i, why := readItem("jobs", &nats.Msg{Header: nats.Header{h.Name: {value}}})
		if why != nil {
			t.Errorf("%s: %s", h.Name, why.Description)
			continue
		}
		field := reflect.ValueOf(i.Item)
		for name := range strings.SplitSeq(h.Field, ".") {
			field = reflect.Indirect(field).FieldByName(name)
		}
		if !field.IsValid() || fmt.Sprint(field) != want {
			t.Errorf("%s of %s: the item has %s of %v", h.Name, value, h.Field, field)
		}
		if _, why := readItem("jobs", &nats.Msg{Header: nats.Header{h.Name: {wrong}}}); (why != nil) != (wrong != "") {
			t.Errorf("%s of %q: %v", h.Name, wrong, why)
		}
	}
}
