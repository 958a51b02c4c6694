package gateway

import (
	"net/url"
	"slices"
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
	if s.ok(&popped, "POST", "/v1/queues/jobs/pop", ""); popped.ID != first || popped.Key != key || popped.WaitsFor != "" || popped.KeyFence == 0 {
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

// Keys are listed, shown and set by their paths, whatever bytes they have, and a push gives
// one a weight.
func TestKeySettings(t *testing.T) {
	t.Parallel()
	s := open(t)
	names := []string{"+", "Ann & S\u00f6hne", "a.b", "a/b"}
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"fair":"priority","rate":"100/1m"}`)
	for _, name := range names {
		s.ok(nil, "POST", "/v1/queues/jobs/push?weight=7&key="+url.QueryEscape(name), "x")
		path := "/v1/queues/jobs/keys/" + url.PathEscape(name)
		var settings protocol.KeySettings
		if s.ok(&settings, "PATCH", path, `{"limit":5,"paused":true}`); settings.Limit == nil || *settings.Limit != 5 {
			t.Errorf("%+v", settings)
		}
		var info protocol.KeyInfo
		s.ok(&info, "GET", path, "")
		if info.Key != name || info.Ready != 1 || info.Limit != 5 || info.Weight != 7 || info.WaitsFor != "pause" || info.Settings.Rate != nil {
			t.Errorf("%+v", info)
		}
	}
	for _, name := range names {
		var page protocol.Page
		if s.ok(&page, "GET", "/v1/queues/jobs/items?key="+url.QueryEscape(name), ""); len(page.Items) != 1 || page.Items[0].Key != name {
			t.Errorf("the items of %q: %+v", name, page)
		}
	}
	var all []string
	for after := ""; ; {
		var page protocol.KeysPage
		s.ok(&page, "GET", "/v1/queues/jobs/keys?limit=3&after="+url.QueryEscape(after), "")
		for _, k := range page.Keys {
			all = append(all, k.Key)
		}
		if after = page.Next; after == "" {
			break
		}
	}
	if !slices.Equal(all, []string{"+", "Ann & S\u00f6hne", "a.b", "a/b"}) {
		t.Errorf("%q", all)
	}
	for _, r := range []struct {
		method, path, body string
		code               int
	}{
		{"POST", "/v1/queues/jobs/push?weight=7", "x", 400},
		{"POST", "/v1/queues/jobs/push?weight=0&key=a", "x", 400},
		{"PATCH", "/v1/queues/jobs/keys/a", "", 400},
		{"PATCH", "/v1/queues/jobs/keys/a", `{"limit":-1}`, 400},
		{"PATCH", "/v1/queues/jobs/keys/%20a", `{}`, 400},
		{"GET", "/v1/queues/jobs/keys/%FF", "", 400},
		{"GET", "/v1/queues/jobs/keys?limit=0", "", 400},
		{"GET", "/v1/queues/none/keys", "", 404},
		{"POST", "/v1/queues/jobs/pop", "", 404},
	} {
		if got := s.send(r.method, r.path, r.body); got.code != r.code {
			t.Errorf("%s %s: %+v, expected %d", r.method, r.path, got, r.code)
		}
	}
}
