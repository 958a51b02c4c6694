package gateway

import (
	"net/http"
	"strings"
	"testing"
)

// Beyond its room the gateway refuses at once, and one kind takes no places of another.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	fill := func(places chan struct{}) {
		for range cap(places) {
			places <- struct{}{}
		}
	}
	empty := func(places chan struct{}) {
		for range cap(places) {
			<-places
		}
	}
	fill(s.room.requests)
	r := s.send("GET", "/v1/queues/jobs", "")
	s.isRefusal(r, 429, "64 requests are under way", "a request too many")
	if r.header.Get("Retry-After") == "" || !strings.Contains(r.body, `"reason":"busy"`) {
		t.Errorf("%+v", r)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/pop?wait=1s", "")
	empty(s.room.requests)

	fill(s.room.waiting)
	s.refused(429, "256 requests that wait", "POST", "/v1/queues/jobs/pop?wait=1s", "")
	s.ok(nil, "GET", "/v1/queues/jobs", "")
	empty(s.room.waiting)

	fill(s.room.streams)
	s.refused(429, "64 streams", "GET", "/v1/watch?path=/v1/queues", "")
	s.ok(nil, "GET", "/v1/queues/jobs", "")
	empty(s.room.streams)

	s.room.bytes.Add(maxBytes - 10)
	s.refused(429, "bytes are under way", "POST", "/v1/queues/jobs/push", "more than ten bytes")
	s.ok(nil, "POST", "/v1/queues/jobs/push", "ten bytes.")
	s.room.bytes.Add(10 - maxBytes)

	s.send("POST", "/v1/queues/jobs/push", strings.Repeat("x", 1<<20+1))
	s.send("GET", "/v1/queues/none", "")
	s.await("everything has left", func() bool {
		return len(s.room.requests) == 0 && len(s.room.waiting) == 0 && len(s.room.streams) == 0 && s.room.bytes.Load() == 0
	})
}

// A body whose length nobody says counts as the largest one.
func TestBodyWithoutLength(t *testing.T) {
	t.Parallel()
	s := open(t)
	send := func() int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/queues/jobs/push", struct{ *strings.Reader }{strings.NewReader("x")})
		if err != nil {
			t.Fatal(err)
		}
		request.ContentLength = -1
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		defer answer.Body.Close()
		return answer.StatusCode
	}
	if code := send(); code != 200 {
		t.Errorf("%d, expected 200", code)
	}
	s.room.bytes.Add(maxBytes - 1<<20 + 1)
	if code := send(); code != 429 {
		t.Errorf("%d, expected 429", code)
	}
	s.room.bytes.Add(-maxBytes + 1<<20 - 1)
}
