package gateway

import (
	"strings"
	"testing"
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
	for _, r := range routes {
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
		for _, r := range routes {
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

// A page of another site cannot have a browser ask, with or without the token.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	s := open(t)
	own := s.url
	for _, header := range [][]string{
		{"Sec-Fetch-Site", "cross-site"}, {"Sec-Fetch-Site", "same-site"}, {"Sec-Fetch-Site", "whatever"},
		{"Origin", "null"}, {"Origin", "https://evil.example"}, {"Origin", own + ".evil.example"}, {"Origin", "http://127.0.0.1"}, {"Origin", "file://"},
		{"Sec-Fetch-Site", "same-origin", "Origin", "https://evil.example"},
		{"Sec-Fetch-Site", "cross-site", "Origin", own},
	} {
		for _, r := range routes {
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
