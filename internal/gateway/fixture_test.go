package gateway

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/internal/testkit/patience"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// site is a gateway before a bridge, as clients see it.
type site struct {
	testing.TB
	*Gateway
	env  *testenv.Bridged
	url  string
	pops chan struct{} // has a value for each pop that the gateway has finished
}

// open starts a gateway. Without options it serves changes.
func open(t testing.TB, options ...Options) *site {
	t.Helper()
	srv := testenv.NATS(t)
	return openAt(t, testenv.BridgeOn(t, srv, bridge.Options{Exclusive: testenv.Engines()[0].Exclusive, Interest: srv.Interest}), options...)
}

// openAt is open before another bridge.
func openAt(t testing.TB, b *testenv.Bridged, options ...Options) *site {
	t.Helper()
	o := Options{Prefix: "pq", Changes: true}
	if len(options) > 0 {
		o = options[0]
	}
	s := &site{TB: t, env: b, pops: make(chan struct{}, 1000)}
	var err error
	if s.Gateway, err = New(o); err != nil {
		t.Fatal(err)
	}
	s.answers = testenv.Most
	s.Connect(s.env.NATS.Connect(t, s.ConnectOptions()...))
	s.url = serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.ServeHTTP(w, r)
		if strings.HasSuffix(r.URL.Path, "/pop") {
			s.pops <- struct{}{}
		}
	}))
	t.Cleanup(s.Stop) // before the server, which streams would hold up
	return s
}

// serve serves HTTP and returns the address.
func serve(t testing.TB, h http.Handler) string {
	t.Helper()
	web := httptest.NewServer(h)
	t.Cleanup(web.Close)
	return web.URL
}

// reply is an answer.
type reply struct {
	code   int
	header http.Header
	body   string
}

// send sends a request. Headers are pairs.
func (s *site) send(method, path, body string, header ...string) reply {
	s.Helper()
	request, err := http.NewRequestWithContext(s.Context(), method, s.url+path, strings.NewReader(body))
	if err != nil {
		s.Fatal(err)
	}
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	client := http.Client{Timeout: testenv.Patience()}
	answer, err := client.Do(request)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		s.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{answer.StatusCode, answer.Header, string(text)}
}

// ok sends a request and decodes its answer, which must be 200.
func (s *site) ok(to any, method, path, body string) {
	s.Helper()
	r := s.send(method, path, body)
	if r.code != http.StatusOK {
		s.Fatalf("%s %s: %d %s", method, path, r.code, r.body)
	}
	if to == nil {
		return
	}
	decoder := json.NewDecoder(bytes.NewReader([]byte(r.body)))
	if err := decoder.Decode(to); err != nil {
		s.Fatalf("%s %s: %v in %s", method, path, err, r.body)
	}
}

// refused sends a request that must be refused with this code and text.
func (s *site) refused(code int, text, method, path, body string, header ...string) protocol.Error {
	s.Helper()
	return s.isRefusal(s.send(method, path, body, header...), code, text, method+" "+path+" "+body)
}

func (s *site) isRefusal(r reply, code int, text, what string) protocol.Error {
	s.Helper()
	var told protocol.ErrorResponse
	if err := json.Unmarshal([]byte(r.body), &told); err != nil {
		s.Errorf("%s: %d, %v in %q", what, r.code, err, r.body)
		return told.Error
	}
	if r.code != code || told.Error.Code != code || told.Error.ErrCode != 30000+code || told.Type != "io.pq.v1.error_response" || !strings.Contains(told.Error.Description, text) {
		s.Errorf("%s: %d %s, expected %d and %q", what, r.code, r.body, code, text)
	}
	return told.Error
}

// numbers are the numbers of a queue in the overview.
type numbers struct{ Ready, Leased, Delayed, Waiting int64 }

func (s *site) numbers(queue string) (n numbers) {
	s.Helper()
	s.ok(&n, "GET", "/v1/queues/"+queue, "")
	return n
}

// users has a NATS server ask for a login.
func users(all ...*server.User) func(*server.Options) {
	return func(o *server.Options) { o.Users = all }
}

// await waits until something is true.
func (s *site) await(what string, is func() bool) {
	s.Helper()
	for late := testenv.BeginWait(); !is(); runtime.Gosched() {
		if late.Over() {
			patience.Fail(s, "after %s it was not true yet that %s", testenv.Patience(), what)
		}
	}
}

// waiting waits until so many pops wait at a queue, which exists.
func (s *site) waiting(queue string, n int64) {
	s.Helper()
	s.await(fmt.Sprintf("%d pops wait", n), func() bool { return s.numbers(queue).Waiting == n })
}

// make makes a queue.
func (s *site) make(queue string) {
	s.Helper()
	s.ok(nil, "PATCH", "/v1/queues/"+queue+"/config", "{}")
}
