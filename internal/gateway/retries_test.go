package gateway

import (
	"net/url"
	"slices"
	"testing"

	"github.com/pqbridge/pqbridge/protocol"
)

// What failed before, who has an item, and what takes it away, in the words of HTTP.
func TestRetries(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "PATCH", "/v1/queues/jobs/config", `{"backoff":["1h","2h"]}`)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	pop := func(query string) (i shownItem) {
		t.Helper()
		s.ok(&i, "POST", "/v1/queues/jobs/pop?"+query, "")
		return i
	}
	settle := func(i shownItem, word string) {
		t.Helper()
		s.ok(nil, "POST", "/v1/queues/jobs/settle?ack="+url.QueryEscape(i.Ack), word)
	}
	first := pop("holder=Ann+%26+S%C3%B6hne")
	if first.Backoff != "1h0m0s" {
		t.Errorf("popped %+v, expected a backoff of 1h", first)
	}
	settle(first, `-NAK {"delay":0,"reason":"no wood"}`)
	settle(pop(""), "-NAK 0s")
	last := pop("batch=1&holder=bob")
	if last.ID != "" {
		t.Errorf("a batch is the item %+v", last)
	}

	var found shownItem
	path := "/v1/queues/jobs/items/" + first.ID
	if s.ok(&found, "GET", path, ""); found.Holder != "bob" || found.Attempts != 2 || found.LastAttempts != nil {
		t.Errorf("shown %+v, expected the holder bob and 2 attempts", found)
	}
	outcomes := func(all []protocol.Attempt) (said []string) {
		for i, a := range all {
			if a.N != int64(i+1) || a.Start.IsZero() || a.End.IsZero() {
				t.Errorf("attempt %+v", a)
			}
			said = append(said, string(a.Outcome)+" "+a.Holder+": "+a.Reason)
		}
		return said
	}
	want := []string{"nak Ann & S\u00f6hne: no wood", "nak : "}
	if s.ok(&found, "GET", path+"?attempts=true", ""); !slices.Equal(outcomes(found.LastAttempts), want) || found.Attempts != 2 {
		t.Errorf("attempts %+v, expected %q", found, want)
	}
	listed := func(query string) (page protocol.Page) {
		t.Helper()
		s.ok(&page, "GET", "/v1/queues/jobs/items?state=leased&"+query, "")
		return page
	}
	if page := listed("holder=bob&attempts=true"); len(page.Items) != 1 || page.Items[0].Holder != "bob" || !slices.Equal(outcomes(page.Items[0].LastAttempts), want) {
		t.Errorf("bob has %+v", page)
	}
	if page := listed("holder=carol"); len(page.Items) != 0 {
		t.Errorf("carol has %+v", page)
	}
	if page := listed("attempts=false"); len(page.Items) != 1 || page.Items[0].Attempts != 2 || page.Items[0].LastAttempts != nil {
		t.Errorf("leased are %+v", page)
	}

	revoked := func(query string) (r protocol.Revoked) {
		t.Helper()
		s.ok(&r, "POST", path+"/revoke?"+query, "")
		return r
	}
	if e := s.refused(410, "", "POST", path+"/revoke?fence=1", ""); e.Reason != protocol.ReasonTaken {
		t.Errorf("an earlier lease: %+v", e)
	}
	if r := revoked("fence=3&delay=0s&reason=bob+is+ill"); r != (protocol.Revoked{ID: first.ID, State: protocol.StateReady, Deliveries: 3}) {
		t.Errorf("revoked: %+v", r)
	}
	if e := s.refused(409, "", "POST", path+"/revoke", ""); e.Reason != protocol.ReasonNotLeased {
		t.Errorf("without a lease: %+v", e)
	}
	taken := pop("holder=carol")
	if r := revoked(""); r.State != protocol.StateReady || r.Deliveries != 4 {
		t.Errorf("revoked whatever the backoff says: %+v", r)
	}
	if e := s.refused(410, "", "POST", "/v1/queues/jobs/settle?ack="+url.QueryEscape(taken.Ack), "+ACK"); e.Reason != protocol.ReasonTaken {
		t.Errorf("the holder of a revoked lease: %+v", e)
	}
	want = append(want, "revoked bob: bob is ill", "revoked carol: ")
	if s.ok(&found, "GET", path+"?attempts=true", ""); !slices.Equal(outcomes(found.LastAttempts), want) || found.Endings != (protocol.Endings{Failures: 2, Returns: 2}) {
		t.Errorf("after all that %+v, expected %q", found, want)
	}
}
