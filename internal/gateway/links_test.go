package gateway

import (
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestLinks(t *testing.T) {
	t.Parallel()
	env := testenv.Bridge(t, bridge.Options{})
	s := openAt(t, env)
	const all, path = "/v1/queues/orders/links", "/v1/queues/orders/links/hub"
	var link protocol.Link
	if s.ok(&link, "PATCH", path, `{"to":"abc"}`); link.State != protocol.LinkStarting || link.To != "abc" {
		t.Errorf("made %+v", link)
	}
	s.refused(400, "cannot be changed", "PATCH", path, `{"to":"def"}`)
	s.refused(400, "the fields to change", "PATCH", path, "")
	nc := env.NATS.Connect(t)
	if m, err := nc.Request("pq.orders.push", []byte("a"), testenv.Patience()); err != nil || m.Header.Get("Nats-Service-Error") != "" {
		t.Fatal(m, err)
	}
	if m, err := nc.RequestMsg(&nats.Msg{Subject: "pq.orders.link.hub", Data: []byte(`{"taker":"abc"}`)}, testenv.Patience()); err != nil || m.Header.Get("PQ-Bundle") != "1" {
		t.Fatal(m, err)
	}
	var info protocol.Info
	if s.ok(&info, "GET", "/v1/queues/orders", ""); info.Held != 1 {
		t.Errorf("info %+v", info)
	}
	var page protocol.Page
	var shown protocol.Listed
	if s.ok(&page, "GET", "/v1/queues/orders/items?state=leased", ""); len(page.Items) != 1 || !page.Items[0].Held {
		t.Fatalf("listed %+v", page)
	}
	if s.ok(&shown, "GET", "/v1/queues/orders/items/"+page.Items[0].ID, ""); !shown.Held || shown.Holder != "link:hub" {
		t.Errorf("item %+v", shown)
	}
	if s.ok(&link, "GET", path, ""); link.Held != 1 || link.Batch != 1 {
		t.Errorf("shown %+v", link)
	}
	if s.ok(&link, "POST", path+"/pause", ""); !link.Paused {
		t.Errorf("paused %+v", link)
	}
	if s.ok(&link, "POST", path+"/resume", ""); link.Paused {
		t.Errorf("resumed %+v", link)
	}
	s.ok(nil, "PATCH", all+"/other", `{"to":"abc","paused":true}`)
	var first, second protocol.LinksPage
	s.ok(&first, "GET", all+"?limit=1", "")
	if s.ok(&second, "GET", all+"?after="+first.Next, ""); first.Next != "hub" || len(second.Links) != 1 || second.Links[0].Name != "other" || second.Next != "" {
		t.Errorf("pages %+v and %+v", first, second)
	}
	if e := s.refused(409, "holds 1 items", "DELETE", path, ""); e.Reason != protocol.ReasonHeld {
		t.Errorf("%+v", e)
	}
	var gone protocol.LinkDeleted
	if s.ok(&gone, "DELETE", path+"?force=true", ""); gone != (protocol.LinkDeleted{Queue: "orders", Name: "hub", Returned: 1}) {
		t.Errorf("deleted %+v", gone)
	}
	if e := s.refused(404, "no link hub", "GET", path, ""); e.Reason != protocol.ReasonUnknown {
		t.Errorf("%+v", e)
	}
}
