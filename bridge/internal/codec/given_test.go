package codec

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// staysBehind says why a link does not give along what an item keeps of its push.
var staysBehind = map[string]string{
	protocol.HeaderDelay: "it gives what is ready", protocol.HeaderNotBefore: "it gives what is ready",
	protocol.HeaderUnique: "the claim stays with the giver", protocol.HeaderUniqueUntil: "the claim stays with the giver",
	protocol.HeaderResultTTL: "the giver keeps that it gave the item",
}

// setSample gives a field a value that no item has by default.
func setSample(field reflect.Value, word string) {
	if field.Kind() == reflect.Int64 {
		field.SetInt(int64(len(word)))
	} else {
		field.SetString("of " + word)
	}
}

// A taker gets what a link gives along, and nothing else of what pushes have said.
func TestLinksGiveAlong(t *testing.T) {
	t.Parallel()
	w, err := New("pq", []byte("secret"), func() int64 { return 1 << 20 })
	if err != nil {
		t.Fatal(err)
	}
	w.Limit.Refresh()
	given := &fdbpq.Item{Priority: 7, Expires: int64(time.Hour), Payload: []byte("payload"), Headers: []byte("Season: autumn\r\n")}
	taken := make(nats.Header)
	for _, h := range protocol.PushHeaders {
		taken[h.Name] = []string{"7s"}
		if h.Given != (h.Shown != "" && staysBehind[h.Name] == "") {
			t.Errorf("%s: the table says that a link gives it along: %t. Expected otherwise, or the reason here", h.Name, h.Given)
		}
		if h.Given && h.Stays() {
			field := reflect.ValueOf(given).Elem().FieldByName(h.Field())
			if !field.IsValid() {
				t.Fatalf("fdbpq.Item has no %s for %s", h.Field(), h.Name)
			}
			setSample(field, h.Word)
		}
	}
	body, _ := AppendGiven(nil, nil, given, time.Minute)
	block, payload, _, err := protocol.NextFrame(body)
	if err != nil {
		t.Fatal(err)
	}
	lines := newFrameLines()
	if f := lines.read(block); f != nil {
		t.Fatal(f.Text)
	}
	for name, values := range lines.header {
		taken[name] = values
	}
	read := w.readTaken("jobs", "hub", taken, payload)
	want := fdbpq.NewItem{Priority: 7, HasPriority: true, TTL: 59 * time.Minute, Payload: []byte("payload")}
	for _, h := range protocol.PushHeaders {
		if h.Given && h.Stays() {
			setSample(reflect.ValueOf(&want).Elem().FieldByName(h.Field()), h.Word)
		}
	}
	want.Headers = read.Item.Headers
	if read.Refused != nil || read.Large != nil || !reflect.DeepEqual(read.Item, want) {
		t.Errorf("the taker gets %+v, %v, %v: expected %+v", read.Item, read.Refused, read.Large, want)
	}
	if text := fmt.Sprintf("Season: autumn\r\nPQ-Source: hub\r\nPQ-Source-Id: %s\r\n", given.ID); string(read.Item.Headers) != text {
		t.Errorf("the taker gets the headers %q: expected %q", read.Item.Headers, text)
	}
}
