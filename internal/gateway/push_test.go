package gateway

import (
	"encoding/json"
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
			t.Errorf("an item with %s of %.20s answers %d: expected that readField in internal/gateway/push.go passes it on as %s, and that the bridge refuses it",
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

// Many items are pushed by one request, in either form of its body, with all that one item may
// have.
func TestPushMany(t *testing.T) {
	t.Parallel()
	s := open(t)
	for _, body := range []string{
		`{"payload":"one","priority":5,"headers":{"Season":"autumn","N":["1","2"]},"key":"ann","weight":3}` + "\n" + `{"payload_base64":"/w==","unique":"u","ttl":"1h","msg_id":"two"}` + "\n{}\n",
		` [{"priority":5,"payload":"one","headers":{"N":["1","2"],"Season":"autumn"},"key":"ann","weight":3}, {"msg_id":"two","payload_base64":"/w==","ttl":"1h","unique":"u"},{}] `,
	} {
		var pushed protocol.PushResponse
		for _, again := range []bool{false, true} {
			if s.ok(&pushed, "POST", "/v1/queues/jobs/push-many?msg_id=all", body); len(pushed.Items) != 3 || pushed.Stream != "jobs" || pushed.Items[0].Priority != 5 || pushed.Duplicate != again {
				t.Fatalf("%s: %+v", body, pushed)
			}
		}
		var items [3]shownItem
		for i := range items {
			s.ok(&items[i], "GET", "/v1/queues/jobs/items/"+pushed.Items[i].ID, "")
		}
		if i := items[0]; *i.Payload != "one" || i.Priority != 5 || i.Key != "ann" || i.Headers["Season"][0] != "autumn" || len(i.Headers["N"]) != 2 {
			t.Errorf("%s: %+v", body, i)
		}
		if i := items[1]; string(i.Base64) != "\xff" || i.Unique != "u" || i.Expires.IsZero() || i.Priority != 0 {
			t.Errorf("%s: %+v", body, i)
		}
		if i := items[2]; *i.Payload != "" || i.Key != "" {
			t.Errorf("%s: %+v", body, i)
		}
		s.ok(nil, "DELETE", "/v1/queues/jobs", "")
	}
}

// A request with a wrong item pushes nothing, and says which item is wrong, and why, in the
// words of its caller.
func TestPushManyIsAllOrNothing(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "here")
	for body, want := range map[string]string{
		`{}` + "\n" + `{"delay":"soon"}`: `item 1: delay is "soon"`,
		`{}{"priority":"high"}`:          "item 1: priority is",
		`{"priority":1.5}`:               "item 0: priority is 1.5: expected an integer",
		`[{},{},{"key":""}]`:             "item 2: key is empty",
		`[{"key":" a"}]`:                 "item 0: key is",
		`[{"weight":3}]`:                 "item 0: weight without key",
		`[{"delay":"1s","not_before":"2030-01-01T00:00:00Z"}]`: "item 0: delay together with not_before",
		`[{"payload":5}]`:                         "item 0: payload is 5: expected a string",
		`[{"payload":"a","payload_base64":""}]`:   "payload together with payload_base64",
		`[{"payload_base64":"?"}]`:                "expected a string of base64",
		`[{"headers":{"PQ-Key":"a"}}]`:            "item 0: header PQ-Key belongs to the protocol",
		`[{"headers":{"A":5}}]`:                   "item 0: header A is 5",
		`[{"headers":{"A b":"c"}}]`:               "header name",
		`[{"headers":{"":"c"}}]`:                  "header name",
		`{}` + "\n" + `{"payload":"a` + "\xff\"}": `item 1: field "payload" is not UTF-8`,
		`[{"payload":"a\ud800b"}]`:                `item 0: field "payload" has half of a surrogate pair`,
		`[{"headers":{"A":["` + "\xe9" + `"]}}]`:  `item 0: field "headers.A" is not UTF-8`,
		`[{},{"msg_id":"` + "\xff" + `"}]`:        `item 1: field "msg_id" is not UTF-8`,
		`[{"payload":"p","payload":"q"}]`:         `item 0: field "payload" occurs twice`,
		`[{"priority":1,"priority":2}]`:           `item 0: field "priority" occurs twice`,
		`[{"headers":{"A":"1","A":"2"}}]`:         `item 0: field "headers.A" occurs twice`,
		`[{"headers":{"A":"b\nC: d"}}]`:           "more than one line",
		`[{"headers":"A: b"}]`:                    "expected an object",
		`[[]]`:                                    "item 0: found []: expected a JSON object such as",
		`[{},5]`:                                  "item 1: found 5: expected",
		`"a"`:                                     `item 0: found "a": expected`,
		`[{"header":"A:b"}]`:                      `item 0: field "header"`,
		`[{"unique_until":"never","unique":"u"}]`: "item 0: unique_until is",
		`[`: "item 0", `{`: "item 0", `5`: "item 0", `null`: "item 0", `[] 5`: "behind the array", ``: "no items", `[]`: "no items", "\n": "no items",
	} {
		why := s.refused(400, want, "POST", "/v1/queues/jobs/push-many", body)
		if strings.Contains(want, "item ") && strings.Contains(want, ": ") && (why.Item == nil || !strings.HasPrefix(want, fmt.Sprintf("item %d", *why.Item))) {
			t.Errorf("%s: the error is about %v", body, why.Item)
		}
		if strings.Contains(why.Description, "Go value") {
			t.Errorf("%s: %s", body, why.Description)
		}
		if strings.Contains(why.Description, "PQ-") && !strings.Contains(want, "PQ-") {
			t.Errorf("%s: %s", body, why.Description)
		}
	}
	many := make([]struct{}, protocol.MaxBundle+1)
	body, err := json.Marshal(many)
	if err != nil {
		t.Fatal(err)
	}
	s.refused(413, "1000", "POST", "/v1/queues/jobs/push-many", string(body))
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_length":2}`)
	s.refused(429, "full", "POST", "/v1/queues/jobs/push-many", `[{},{}]`)
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"max_length":0,"result_bytes":300}`)
	s.refused(429, "results", "POST", "/v1/queues/jobs/push-many", `[{},{"result_ttl":"1h"}]`)
	s.refused(429, "results", "POST", "/v1/queues/jobs/push?result_ttl=1h", "x")
	if n := s.numbers("jobs"); n.Ready != 1 {
		t.Errorf("%+v, expected the item that was there", n)
	}
}

// Errors name what the caller has written: parameters, and no headers of NATS.
func TestErrorsNameParameters(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	long := strings.Repeat("i", 1025)
	for request, want := range map[string]string{
		"POST push?delay=soon": `delay is "soon"`,
		"POST push?ttl=0s":     "ttl is 0s",
		"POST push?delay=1s&not_before=2030-01-01T00:00:00Z": "delay together with not_before",
		"POST push?weight=3":                    "weight without key",
		"POST push?weight=x&key=a":              "weight is",
		"POST push?on_conflict=keep":            "on_conflict or unique_until without unique",
		"POST push?unique=u&unique_until=never": "unique_until is",
		"POST push?msg_id=" + long:              "msg_id has 1025 bytes",
		"POST push?settle=nothing":              "as ack said it",
		"POST pop?wait=-1s":                     "wait is -1s: expected 0s or more",
		"POST pop?batch=0":                      "batch is 0: expected 1 or more",
		"POST pop?batch=many":                   "batch is",
		"POST pop?lease=1000h":                  "lease is",
		"POST pop?band=5":                       "band",
		"POST pop?repeat=perhaps&msg_id=a":      "repeat is",
		"POST pop?repeat=true":                  "repeat",
	} {
		method, path, _ := strings.Cut(request, " ")
		why := s.refused(400, want, method, "/v1/queues/jobs/"+path, "")
		if strings.Contains(why.Description, "PQ-") || strings.Contains(why.Description, "Nats-") {
			t.Errorf("%s: %s", request, why.Description)
		}
	}
}
