package gateway

import (
	"crypto/sha256"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats.go"
)

// example is a path of a route.
func (r *route) example() string {
	return strings.NewReplacer("{queue}", "jobs", "{id}", "x", "{schedule}", "s", "{source}", "s").Replace(r.path)
}

// A gateway that only shows refuses each request that changes something, before it looks at
// anything else.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Prefix: "pq"})
	if r := s.send("GET", "/v1/access", ""); !strings.Contains(r.body, `"access":"read"`) {
		t.Errorf("%+v", r)
	}
	changes := 0
	for _, r := range newRoutes() {
		if r.changes {
			changes++
			s.refused(403, "PQ_CONSOLE=admin", r.method, r.example(), "")
		}
	}
	if changes < 10 {
		t.Errorf("found %d routes that change something", changes)
	}
	s.refused(404, "no queue jobs", "GET", "/v1/queues/jobs", "")
	s.refused(405, "expected POST", "GET", "/v1/watch?path=/v1/queues/jobs/purge", "")
}

// Without the token no route answers.
func TestToken(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Prefix: "pq", Changes: true, Token: "a token of 16 or more"})
	for _, header := range [][]string{
		nil, {"Authorization", "Bearer wrong"}, {"Authorization", "Bearer "}, {"Authorization", "a token of 16 or more"},
		{"Authorization", "Bearer a token of 16 or mor"}, {"Authorization", "Basic a token of 16 or more"}, {"Authorization", "Bearer a token of 16 or more "},
		{"Cookie", "token=a token of 16 or more"},
	} {
		for _, r := range newRoutes() {
			path := r.example()
			if header != nil && header[1] == "Bearer a token of 16 or more " {
				continue // HTTP cuts spaces off at the end
			}
			s.refused(401, "PQ_CONSOLE_TOKEN", r.method, path, "", header...)
		}
	}
	s.refused(401, "PQ_CONSOLE_TOKEN", "GET", "/v1/nowhere?token=a+token+of+16+or+more", "")
	if r := s.send("POST", "/v1/queues/jobs/push", "x", "Authorization", "Bearer a token of 16 or more"); r.code != 200 {
		t.Errorf("%+v", r)
	}
}

// A page of another site cannot have a browser ask, with or without the token, also where pqd changes queues by
// default. A program of the same machine at another port is another site, too.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{"on request": {Prefix: "pq", Changes: true}, "by default": {Prefix: "pq", Changes: true, Near: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			otherSites(t, open(t, o))
		})
	}
}

func otherSites(t *testing.T, s *site) {
	own := s.url
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "whatever"},
		{"Origin", "null"}, {"Origin", "https://evil.example"}, {"Origin", own + ".evil.example"}, {"Origin", "http://127.0.0.1"}, {"Origin", "file://"},
		{"Origin", "http://localhost:3000"}, {"Origin", "http://127.0.0.1:3000"}, {"Origin", strings.Replace(own, "127.0.0.1", "localhost", 1)},
		{"Origin", "http://localhost:3000", "Sec-Fetch-Site", "same-site"}, {"Origin", "chrome-extension://abcdefgh", "Sec-Fetch-Site", "none"},
		{"Sec-Fetch-Site", "same-origin", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "cross-site", "Origin", own},
	} {
		for _, r := range newRoutes() {
			s.refused(403, "another site, or a proxy", r.method, r.example(), "", header...)
		}
	}
	for _, header := range [][]string{
		nil, {"Origin", own}, {"Sec-Fetch-Site", "same-origin"}, {"Sec-Fetch-Site", "none"}, {"Sec-Fetch-Site", "same-origin", "Origin", own},
	} {
		if r := s.send("POST", "/v1/queues/jobs/push", "x", header...); r.code != 200 {
			t.Errorf("%v: %+v", header, r)
		}
	}
	if n := s.numbers("jobs"); n.Ready != 5 {
		t.Errorf("%+v", n)
	}
	// No answer invites other sites.
	if r := s.send("OPTIONS", "/v1/queues", "", "Origin", own, "Access-Control-Request-Method", "GET"); r.code != 405 || r.header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("%+v", r)
	}
}

// Browsers without Sec-Fetch-Site send no Origin with what a page embeds, an image for one: a request of this kind
// changes nothing.
func TestWhatPagesEmbedChangesNothing(t *testing.T) {
	t.Parallel()
	for _, r := range newRoutes() {
		if r.changes && (r.method == http.MethodGet || r.method == http.MethodHead) {
			t.Errorf("%s %s changes something", r.method, r.path)
		}
	}
}

// Where pqd changes queues by default, it does so for programs on its machine: not for what a proxy there passes on,
// nor for who calls it by a name that a network resolves. Those may look.
func TestNear(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Prefix: "pq", Changes: true, Near: true})
	port := s.url[strings.LastIndex(s.url, ":"):]
	for _, host := range []string{"127.0.0.1" + port, "127.0.0.2", "localhost" + port, "LocalHost", "[::1]" + port, "[::1]"} {
		callsAs(t, s, 200, `"access":"admin"`, "HTTP/1.1\r\nHost: "+host+"\r\n")
	}
	for _, head := range []string{
		"HTTP/1.1\r\nHost: 192.0.2.1:8622\r\n", "HTTP/1.1\r\nHost: pqd\r\n", "HTTP/1.1\r\nHost: 127.0.0.1.evil.example\r\n", "HTTP/1.1\r\nHost: \r\n",
		"HTTP/1.0\r\n", "HTTP/1.0\r\nHost: 127.0.0.1" + port + "\r\n",
		"HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: 192.0.2.1\r\n", "HTTP/1.1\r\nHost: localhost\r\nForwarded: for=192.0.2.1\r\n",
		"HTTP/1.1\r\nHost: localhost\r\nx-real-ip: 192.0.2.1\r\n", "HTTP/1.1\r\nHost: localhost\r\nVia: 1.1 proxy\r\n",
		"HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Host: localhost\r\n", "HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-Proto: https\r\n",
	} {
		callsAs(t, s, 403, `"access":"read"`, head)
	}
	for _, name := range []string{
		"X-Forwarded-Port", "X-Forwarded-Server", "X-Client-IP", "CF-Connecting-IP", "cf-ray", "True-Client-IP", "X-Envoy-External-Address", "X-ProxyUser-Ip",
		"Fly-Client-IP", "Tailscale-User-Login", "X-Amzn-Trace-Id", "CDN-Loop",
	} {
		if r := s.send("POST", "/v1/queues/jobs/push", "x", name, "x"); r.code != 403 {
			t.Errorf("with the header %s: %+v", name, r)
		}
	}
	if n := s.numbers("jobs"); n.Ready != 6 {
		t.Errorf("%+v", n)
	}
	all := open(t)
	if r := all.send("POST", "/v1/queues/jobs/push", "x", "X-Forwarded-For", "192.0.2.1"); r.code != 200 {
		t.Errorf("on request, through a proxy: %+v", r)
	}
}

// callsAs pushes and asks for the rights, by requests that go on like this.
func callsAs(t *testing.T, s *site, push int, access, head string) {
	t.Helper()
	for begin, want := range map[string]int{"POST /v1/queues/jobs/push ": push, "GET /v1/access ": 200} {
		conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, begin+head+"Content-Length: 0\r\nConnection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(conn)
		if err != nil {
			t.Fatal(err)
		}
		if code := string(text[9:12]); code != strconv.Itoa(want) || want == 403 && !strings.Contains(string(text), "expected PQ_CONSOLE=admin") {
			t.Errorf("%s%q: %s, expected %d", begin, head, text, want)
		}
		if strings.HasPrefix(begin, "GET") && !strings.Contains(string(text), access) {
			t.Errorf("%s%q: %s, expected %s", begin, head, text, access)
		}
	}
}

// No browser keeps an answer, shows it as a page, or hands it to another site: items and
// refusals alike.
func TestAnswersAreNoPages(t *testing.T) {
	t.Parallel()
	s := open(t)
	for code, path := range map[int]string{200: "/v1/queues", 404: "/v1/queues/none", 403: "/v1/queues", 400: "/v1/queues/_none"} {
		var header []string
		if code == 403 {
			header = []string{"Origin", "https://evil.example"}
		}
		r := s.send("GET", path, "", header...)
		if r.code != code {
			t.Fatalf("%s: %+v, expected %d", path, r, code)
		}
		for name, value := range map[string]string{
			"Content-Type": "application/json", "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
		} {
			if got := r.header.Get(name); got != value {
				t.Errorf("%d: %s is %q, expected %q", code, name, got, value)
			}
		}
	}
}

// A tenant's token is known as long as it holds; what its users watch, and the places that they take, are the tenant's.
func TestTenantCallers(t *testing.T) {
	t.Parallel()
	const token, tenants = "the operator's token", "a's token of 16 or more"
	var gone, former atomic.Bool
	g, err := New(Options{Prefix: "pq", Tenants: true, Token: token, TenantOf: func(hash [sha256.Size]byte) string {
		if !gone.Load() && hash == sha256.Sum256([]byte(tenants)) || former.Load() && hash == sha256.Sum256([]byte(token)) {
			return "a"
		}
		return ""
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(g.Stop)
	from := func(token string) (*caller, *refusal) {
		r := httptest.NewRequest("GET", "/v1/access", nil)
		r.Header.Set("Authorization", "Bearer "+token)
		return g.auth.authenticate(r)
	}
	a, why := from(tenants)
	if again, _ := from(tenants); why != nil || a != again || a.tenant != "a" || a.grammar.Prefix() != "pq.a" || a.sampler == g.auth.operator.sampler {
		t.Errorf("%+v, %v", a, why)
	}
	if o, why := from(token); why != nil || o != g.auth.operator {
		t.Errorf("%+v, %v", o, why)
	}
	address := sourceOf("192.0.2.1:1")
	if got := address.of(a); got != sourceOf("192.0.2.2:1").of(a) || got == address || got.name() != "tenant a" || address.of(g.auth.operator) != address {
		t.Errorf("%+v", got)
	}
	gone.Store(true)
	if _, why := from(tenants); why == nil || why.Code != 401 {
		t.Errorf("a token that is gone: %v", why)
	}
	former.Store(true)
	if c, why := from(token); why != nil || c.tenant != "a" {
		t.Errorf("a tenant with what was the operator's token: %+v, %v", c, why)
	}
}

// A stream ends with the token that it was opened with.
func TestStreamOfOldToken(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const token = "the operator's token"
		var gone atomic.Bool
		g, err := New(Options{Prefix: "pq", Tenants: true, Token: token, TenantOf: func([sha256.Size]byte) string {
			if gone.Load() {
				return ""
			}
			return "a"
		}})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Stop()
		r := httptest.NewRequest("GET", "/v1/watch?path=/v1/access", nil)
		r.Header.Set("Authorization", "Bearer a token of a tenant")
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			g.ServeHTTP(&patientWriter{httptest.NewRecorder()}, r)
		}()
		<-time.After(3 * beat)
		select {
		case <-ended:
			t.Fatal("the stream ended")
		default:
		}
		gone.Store(true)
		<-time.After(beat)
		synctest.Wait()
		select {
		case <-ended:
		default:
			t.Error("the stream goes on without its token")
		}
	})
}

// patientWriter has no deadlines.
type patientWriter struct{ *httptest.ResponseRecorder }

func (w *patientWriter) SetReadDeadline(time.Time) error  { return nil }
func (w *patientWriter) SetWriteDeadline(time.Time) error { return nil }

// An administrative request has the address of its client, behind the addresses that proxies tell, and no other request has.
func TestForwardedAddress(t *testing.T) {
	t.Parallel()
	s := open(t)
	nc := s.env.NATS.Connect(t)
	asked := make(chan *nats.Msg, 100)
	if _, err := nc.ChanSubscribe("pq.>", asked); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	long := strings.Repeat("9", 1000)
	for _, tc := range []struct {
		method, path, body, told, want string
	}{
		{"POST", "/v1/queues/jobs/push", "x", "10.0.0.7", ""},
		{"GET", "/v1/queues/jobs", "", "", ""},
		{"POST", "/v1/queues/jobs/pause", "", "", "127.0.0.1"},
		{"POST", "/v1/queues/jobs/bulk/remove", `{"all":true}`, "10.0.0.7, 10.0.0.8", "10.0.0.7, 10.0.0.8, 127.0.0.1"},
		{"PATCH", "/v1/queues/jobs/config", `{"lease":"1m"}`, long, long[:120] + ", 127.0.0.1"},
	} {
		var header []string
		if tc.told != "" {
			header = []string{"X-Forwarded-For", tc.told}
		}
		if r := s.send(tc.method, tc.path, tc.body, header...); r.code != 200 {
			t.Fatalf("%s %s: %d %s", tc.method, tc.path, r.code, r.body)
		}
		m := <-asked
		for strings.Contains(m.Subject, ".event.") {
			m = <-asked
		}
		if got := m.Header.Get("X-Forwarded-For"); got != tc.want {
			t.Errorf("%s %s: %s has the address %q, expected %q", tc.method, tc.path, m.Subject, got, tc.want)
		}
	}
}
