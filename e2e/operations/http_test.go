package operations_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestHTTP(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_CONSOLE=admin")
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "x")

	for _, page := range []string{"/healthz", "/readyz"} {
		if code, body := pqd.Get(t, p.HTTP+page); code != http.StatusOK {
			t.Errorf("%s: %d %s, expected 200", page, code, body)
		}
	}
	if code, _ := pqd.Get(t, p.HTTP+"/elsewhere"); code != http.StatusNotFound {
		t.Errorf("/elsewhere: %d, expected 404", code)
	}

	code, metrics := pqd.Get(t, p.HTTP+"/metrics")
	if code != http.StatusOK {
		t.Errorf("/metrics: %d, expected 200", code)
	}
	for _, line := range []string{`go_goroutines \d+`, `process_cpu_seconds_total \S+`, `pq_store_commits_total [1-9]\d*`, `pq_store_conflicts_total \d+`, `pq_store_disk_bytes [1-9]\S*`, `pq_store_spare_bytes [1-9]\S*`} {
		if !regexp.MustCompile(`(?m)^` + line + `$`).MatchString(metrics) {
			t.Errorf("/metrics: no line like %s", line)
		}
	}

	// The log tells who has changed something, and at last that pqd has stopped.
	if code, body := pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/pause", ""); code != http.StatusOK {
		t.Fatalf("a pause: %d %s", code, body)
	}
	p.AwaitLog(t, `"administrative act: admin.pause"`)
	if line := regexp.MustCompile(`"level":"INFO","msg":"administrative act: admin.pause","queue":"jobs","reply_prefix":"_INBOX\.[^".]+","address":"127\.0\.0\.1"`); !line.MatchString(p.Log()) {
		t.Errorf("the log has no line like %s:\n%s", line, p.Log())
	}
	p.Stop(t)
	if log := p.Log(); !strings.HasSuffix(strings.TrimSpace(log), `"level":"INFO","msg":"stopped"}`) {
		t.Errorf("the log ends otherwise:\n%s", log)
	}
}

// The profile pages exist only with PQ_PROFILE=true.
func TestProfilePages(t *testing.T) {
	t.Parallel()
	pages := []string{"/debug/pprof/", "/debug/pprof/allocs", "/debug/pprof/block", "/debug/pprof/goroutine?debug=2",
		"/debug/pprof/profile?seconds=1", "/debug/pprof/trace?seconds=1"}
	closed, open := testenv.Daemon(t), testenv.Daemon(t, "PQ_PROFILE=true")
	pqd.Push(t, open.Connect(t), "jobs", 1, "x") // waits for the disk
	for _, page := range pages {
		if code, _ := pqd.Get(t, closed.HTTP+page); code != http.StatusNotFound {
			t.Errorf("%s: %d, expected 404 without PQ_PROFILE", page, code)
		}
		if code, _ := pqd.Get(t, open.HTTP+page); code != http.StatusOK {
			t.Errorf("%s: %d, expected 200", page, code)
		}
	}
	if _, waits := pqd.Get(t, open.HTTP+"/debug/pprof/block?debug=1"); !regexp.MustCompile(`bridge|fdbpq|pebble`).MatchString(waits) {
		t.Errorf("no wait is recorded:\n%s", waits)
	}
}

// A request for the server as a whole, which net/http would answer by itself, is none of pqd's.
func TestOptionsOfServer(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	conn, err := net.Dial("tcp", strings.TrimPrefix(p.HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "OPTIONS * HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode < 400 {
		t.Errorf("OPTIONS * is answered %s", response.Status)
	}
}

// pqd's pages answer only under host names that a web page cannot take over.
func TestHTTPHosts(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_HTTP_HOSTS=pqd.example.com, other.example.com", "PQ_PROFILE=true")
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, guarded := range map[string]bool{
		"127.0.0.1": false, "127.0.0.1:8622": false, "[::1]:8622": false, "[::1]": false, "localhost:8622": false, "LocalHost.": false,
		"PQD.example.com:80": false, "other.example.com.": false, own: false,
		// Whoever gives out a search domain resolves names without a dot.
		"evil": true, "evil:8622": true, "EVIL.": true, "pqd:8622": true, "localhost.localdomain": true, "evil.localhost": true, "1": true,
		"evil.example": true, "evil.example:8622": true, "pqd.example.com.evil.example": true, "example.com": true, "127.0.0.1.evil.example": true,
	} {
		for _, page := range []string{"/metrics", "/debug/pprof/", "/v1/access", "/v1/queues", "/", "/console/main.js", "/healthz", "/readyz"} {
			want := http.StatusOK
			if guarded && page != "/healthz" && page != "/readyz" {
				want = http.StatusMisdirectedRequest
			}
			if got := codeAs(t, p.HTTP+page, host); got != want {
				t.Errorf("%s called as %s: %d, expected %d", page, host, got, want)
			}
		}
	}
}

// Pages go by the host that a client has called, however it says so, and by nobody's word
// for another one.
func TestHTTPHostForms(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t) // which may change queues
	where := strings.TrimPrefix(p.HTTP, "http://")
	for request, want := range map[string]int{
		"GET /v1/queues HTTP/1.0\r\n":                                                          200, // no browser
		"GET /v1/queues HTTP/1.1\r\nHost: [fe80::1%eth0]:8622\r\n":                             200,
		"GET /v1/queues HTTP/1.1\r\nHost: evil\r\nX-Forwarded-Host: localhost\r\n":             421,
		"GET /v1/queues HTTP/1.1\r\nHost: evil\r\nForwarded: host=localhost\r\n":               421,
		"GET /v1/queues HTTP/1.1\r\nHost: evil\r\nOrigin: http://evil\r\n":                     421,
		"GET http://evil/v1/queues HTTP/1.1\r\nHost: localhost\r\n":                            421,
		"GET http://evil:8622/v1/queues HTTP/1.1\r\nHost: " + where + "\r\n":                   421,
		"POST /v1/queues/jobs/push HTTP/1.1\r\nHost: evil\r\nContent-Length: 0\r\n":            421,
		"GET /v1/watch?path=/v1/queues HTTP/1.1\r\nHost: evil\r\n":                             421,
		"GET /v1/queues HTTP/1.1\r\nHost: [evil]\r\n":                                          421,
		"GET /v1/queues HTTP/1.1\r\nHost: evil:localhost\r\n":                                  421,
		"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nOrigin: http://evil\r\n":                403,
		"GET /v1/queues HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: cross-site\r\n":         403,
		"GET /v1/queues HTTP/1.1\r\nHost: localhost:8622\r\nOrigin: http://localhost:8622\r\n": 200,
	} {
		conn, err := net.Dial("tcp", where)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request+"Connection: close\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			t.Errorf("%q: %v", request, err)
			continue
		}
		if answer.StatusCode != want { // its body may be a stream
			t.Errorf("%q: %d, expected %d", request, answer.StatusCode, want)
		}
	}
	if code, body := pqd.Get(t, p.HTTP+"/v1/queues"); code != 200 || strings.Contains(body, "jobs") {
		t.Errorf("%d %s: expected that nothing was pushed", code, body)
	}

	// Beyond loopback, where pqd asks for a token, containers call it by their names; a page over
	// loopback cannot, whatever PQ_HTTP is.
	token := filepath.Join(t.TempDir(), "token")
	pqd.Write(t, token, "0123456789abcdef\n")
	open := testenv.Daemon(t, "PQ_HTTP=0.0.0.0:0", "PQ_CONSOLE_TOKEN="+token)
	_, port, err := net.SplitHostPort(strings.TrimPrefix(open.HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	for at, want := range map[string]int{"127.0.0.1": 421, ownAddress(t): 200} {
		if code, _ := pqd.Ask(t, "GET", "http://"+net.JoinHostPort(at, port)+"/metrics", "", "Host", "pqd:8622"); code != want {
			t.Errorf("pqd at %s, called as pqd: %d, expected %d", at, code, want)
		}
	}
}

// ownAddress is an address of the machine that is none of loopback.
func ownAddress(t *testing.T) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range all {
		if n, is := one.(*net.IPNet); is && n.IP.To4() != nil && !n.IP.IsLoopback() {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no address beyond loopback")
	return ""
}
