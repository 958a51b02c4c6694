package gateway

import (
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// An item keeps its key on all ways through the gateway, and shows what it waits for.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"key_order":true,"lease":"1h"}`)
	push := func(query string) string {
		t.Helper()
		var pushed protocol.PushResponse
		s.ok(&pushed, "POST", "/v1/queues/jobs/push?"+query, "x")
		return pushed.ID
	}
	const key = "Ann & S\u00f6hne"
	first, second, bare := push("key=Ann+%26+S%C3%B6hne&priority=1"), push("key=Ann+%26+S%C3%B6hne&priority=2"), push("priority=3")

	var popped, peeked, waits shownItem
	if s.ok(&popped, "POST", "/v1/queues/jobs/pop", ""); popped.ID != first || popped.Key != key || popped.WaitsFor != "" {
		t.Errorf("popped %+v", popped)
	}
	if s.ok(&peeked, "GET", "/v1/queues/jobs/peek", ""); peeked.ID != bare || peeked.Key != "" {
		t.Errorf("peeked at %+v, expected the item without a key", peeked)
	}
	if s.ok(&waits, "GET", "/v1/queues/jobs/items/"+second, ""); waits.Key != key || waits.WaitsFor != "key_order" {
		t.Errorf("%+v", waits)
	}
	var page protocol.Page
	if s.ok(&page, "GET", "/v1/queues/jobs/items?limit=1", ""); len(page.Items) != 1 || page.Items[0].ID != second || page.Items[0].Key != key {
		t.Errorf("%+v", page)
	}
	if r := s.send("POST", "/v1/queues/jobs/pop?end=max", ""); r.code != 409 {
		t.Errorf("%+v", r)
	}

	// A dead letter has its key, and takes it back.
	s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+popped.Ack, "+TERM no way")
	var dead, again shownItem
	if s.ok(&dead, "GET", "/v1/queues/jobs-dead/peek", ""); dead.Key != key {
		t.Errorf("%+v", dead)
	}
	var requeued protocol.PushResponse
	s.ok(&requeued, "POST", "/v1/queues/jobs-dead/items/"+dead.ID+"/requeue", "")
	if s.ok(&again, "GET", "/v1/queues/jobs/items/"+requeued.ID, ""); again.Key != key {
		t.Errorf("the requeued item has the key %q, expected %q", again.Key, key)
	}
}
