package gateway

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// Each header of a push is a parameter and a field of an item, and reaches the bridge, which refuses a wrong value.
func TestEachPushHeaderIsPassedOn(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, h := range protocol.PushHeaders {
		wrong := "another"
		if _, text := h.Type.(string); text && h.Most > 0 {
			wrong = strings.Repeat("x", int(h.Most)+1)
		}
		if r := s.send("POST", "/v1/queues/jobs/push?"+h.Word+"="+wrong, "x"); r.code != protocol.CodeBadRequest {
			t.Errorf("%s=%.20s answers %d: expected that push in internal/gateway/push.go passes it on as %s, and that the bridge refuses it", h.Word, wrong, r.code, h.Name)
		}
		if r := s.send("POST", "/v1/queues/jobs/push-many", fmt.Sprintf(`[{"payload":"x",%q:%q}]`, h.Word, wrong)); r.code != protocol.CodeBadRequest {
			t.Errorf("an item with %s of %.20s answers %d: expected that readField in internal/gateway/push_many.go passes it on as %s, and that the bridge refuses it",
				h.Word, wrong, r.code, h.Name)
		}
	}
}

// What a push says of its item stays with the item, where it is shown by its id and in lists.
func TestWhatAPushSaysIsShown(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, h := range protocol.PushHeaders {
		if !h.Stays() {
			continue
		}
		value, query := "x", ""
		if h.Words != nil {
			value = h.Words[0]
		}
		switch h.Type.(type) {
		case int64:
			value = "7"
		case protocol.Duration:
			value = "1m0s" // of those that are kept as they are
		}
		for _, with := range protocol.PushHeaders {
			if with.Name == h.With {
				query = "&" + with.Word + "=of-" + h.Word
			}
		}
		field, is := reflect.TypeFor[protocol.Item]().FieldByName(h.Field())
		if !is {
			t.Errorf("protocol.Item has no field %s", h.Field())
			continue
		}
		name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		var pushed struct{ ID string }
		s.ok(&pushed, "POST", "/v1/queues/jobs/push?"+h.Word+"="+value+query, "x")
		var shown map[string]any
		s.ok(&shown, "GET", "/v1/queues/jobs/items/"+pushed.ID, "")
		var page struct{ Items []map[string]any }
		s.ok(&page, "GET", "/v1/queues/jobs/items", "")
		at := slices.IndexFunc(page.Items, func(i map[string]any) bool { return i["id"] == pushed.ID })
		if at < 0 || fmt.Sprint(page.Items[at][name]) != value || fmt.Sprint(shown[name]) != value {
			t.Errorf("%s of %s: the item is %v, the list %v", h.Word, value, shown, page.Items)
		}
	}
}
