package gateway

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// fill takes all places that an address may have, until the test calls empty.
func (s *site) fill(p *places, who source) (empty func()) {
	s.Helper()
	s.await("requests before have left", func() bool { return p.take(who, p.all/2) == nil })
	return func() { p.leave(who, p.all/2) }
}

// here is the address of the tests' clients.
var here = sourceOf("127.0.0.1:1")

// Beyond its room the gateway refuses at once, and one kind takes no places of another.
func TestTooMuch(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.ok(nil, "POST", "/v1/queues/jobs/push", "x")
	empty := s.fill(s.room.requests, here)
	r := s.send("GET", "/v1/queues/jobs", "")
	s.isRefusal(r, 429, "64 requests of 127.0.0.1 are under way", "a request too many")
	if r.header.Get("Retry-After") == "" || !strings.Contains(r.body, `"reason":"busy"`) {
		t.Errorf("%+v", r)
	}
	s.ok(nil, "POST", "/v1/queues/jobs/pop?wait=1s", "")
	empty()

	empty = s.fill(s.room.waiting, here)
	s.refused(429, "256 requests that wait", "POST", "/v1/queues/jobs/pop?wait=1s", "")
	s.ok(nil, "GET", "/v1/queues/jobs", "")
	empty()

	empty = s.fill(s.room.streams, here)
	s.refused(429, "128 streams", "GET", "/v1/watch?path=/v1/queues", "")
	s.ok(nil, "GET", "/v1/queues/jobs", "")
	empty()

	empty = s.fill(s.room.bytes, here)
	s.room.bytes.leave(here, 20)
	s.refused(429, "bytes of requests of 127.0.0.1 are under way", "POST", "/v1/queues/jobs/push", "more than twenty bytes")
	s.ok(nil, "POST", "/v1/queues/jobs/push", "ten bytes.")
	s.await("the request has left", func() bool { return s.room.bytes.take(here, 20) == nil })
	empty()

	s.send("POST", "/v1/queues/jobs/push", strings.Repeat("x", 1<<20+1))
	s.send("GET", "/v1/queues/none", "")
	s.empties()
}

// empties waits until nothing is under way.
func (s *site) empties() {
	s.Helper()
	s.await("everything has left", func() bool {
		return s.room.requests.taken() == 0 && s.room.waiting.taken() == 0 && s.room.streams.taken() == 0 && s.room.bytes.taken() == 0
	})
}

// One address takes half of the room, and the others have the rest. Two together cannot take
// more than there is.
func TestRoomOfOneAddress(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	ask := func(address, method, path string) int {
		t.Helper()
		r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(""))
		r.RemoteAddr = address
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		return w.Code
	}
	for kind, c := range map[*places]struct{ method, path string }{
		s.room.requests: {"GET", "/v1/queues/jobs"}, s.room.waiting: {"GET", "/v1/queues/jobs/peek?wait=1ms"},
	} {
		empty := s.fill(kind, sourceOf("192.0.2.1:1"))
		for address, busy := range map[string]bool{"192.0.2.1:2": true, "[::ffff:192.0.2.1]:3": true, "192.0.2.2:1": false, "[2001:db8::1]:1": false, "pipe": false} {
			if code := ask(address, c.method, c.path); (code == 429) != busy {
				t.Errorf("%s of %s: %d, expected a refusal: %t", kind.what, address, code, busy)
			}
		}
		rest := s.fill(kind, sourceOf("[2001:db8::1]:1"))
		for _, address := range []string{"[2001:db8::ffff:1%eth0]:2", "192.0.2.2:1"} {
			if code := ask(address, c.method, c.path); code != 429 {
				t.Errorf("%s of %s: %d, and all are taken", kind.what, address, code)
			}
		}
		empty()
		rest()
	}
	s.empties()
}

// slow sends requests on connections of their own, and reads no answers.
func (s *site) slow(n int, text string) (conns []net.Conn) {
	s.Helper()
	for range n {
		conn, err := (&net.Dialer{}).DialContext(s.Context(), "tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			s.Fatal(err)
		}
		s.Cleanup(func() { _ = conn.Close() }) // it may be closed
		if _, err := fmt.Fprintf(conn, text, s.url[len("http://"):]); err != nil {
			s.Fatal(err)
		}
		conns = append(conns, conn)
	}
	return conns
}

// Clients whose bodies do not arrive hold up nobody, whatever they announce: neither with the
// right to push nor without, where a request has no body.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	s := open(t)
	s.make("jobs")
	const each = 2 * maxRequests
	var conns []net.Conn
	for _, text := range []string{
		"GET /v1/queues HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n",
		"POST /v1/queues/mine/push HTTP/1.1\r\nHost: %s\r\nContent-Length: 1000000\r\n\r\nx",
		"POST /v1/queues/mine/push?settle=x HTTP/1.1\r\nHost: %s\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n",
	} {
		conns = append(conns, s.slow(each, text)...)
	}
	s.await("the gateway waits for all bodies", func() bool { return s.room.bytes.taken() == each*(1+2*firstPart) })
	for range 20 {
		s.ok(nil, "GET", "/v1/queues/jobs", "")
		s.ok(nil, "POST", "/v1/queues/jobs/push", strings.Repeat("x", 1<<20-1<<10))
		s.ok(nil, "POST", "/v1/queues/jobs/pop?wait=1s", "")
	}
	if n := s.room.requests.taken(); n != 0 {
		t.Errorf("%d requests have places whose bodies did not arrive", n)
	}
	for _, conn := range conns {
		_ = conn.Close()
	}
	s.empties()
}

// A body whose length nobody says gets room as it arrives, and has its bound.
func TestBodyWithoutLength(t *testing.T) {
	t.Parallel()
	s := open(t)
	send := func(body string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.url+"/v1/queues/jobs/push", struct{ *strings.Reader }{strings.NewReader(body)})
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
	if code := send("x"); code != 200 {
		t.Errorf("%d, expected 200", code)
	}
	if code := send(strings.Repeat("x", 1<<20+1)); code != 413 {
		t.Errorf("%d, expected 413", code)
	}
	if code := send(strings.Repeat("x", 1<<20-1<<10)); code != 200 {
		t.Errorf("%d, expected 200", code)
	}
	defer s.fill(s.room.bytes, here)()
	s.room.bytes.leave(here, firstPart)
	left := func() bool { return s.room.bytes.taken() == s.room.bytes.all/2-firstPart } // a request ends after its answer
	if code := send(strings.Repeat("x", firstPart+1)); code != 429 {
		t.Errorf("%d, expected 429", code)
	}
	s.await("the refused request has left", left)
	if code := send(strings.Repeat("x", firstPart-1)); code != 200 {
		t.Errorf("%d, expected 200", code)
	}
	s.await("the request has left", func() bool { return s.room.bytes.take(here, firstPart) == nil })
}
