package console_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// What the HTTP interface serves depends on PQ_CONSOLE, and without it on who could reach
// it.
func TestConsoleModes(t *testing.T) {
	t.Parallel()
	token := filepath.Join(t.TempDir(), "token")
	pqd.Write(t, token, "0123456789abcdef\n")
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `listen: "127.0.0.1:-1"`)
	tenants := filepath.Join(t.TempDir(), "tenants.json")
	pqd.Write(t, tenants, "{}")
	const (
		closed  = 404
		reads   = 403
		changes = 200
		asks    = 401
	)
	for name, c := range map[string]struct {
		env  []string
		want int // in answer to a push
	}{
		"by default":                   {nil, changes},
		"by default with NATS for all": {[]string{"PQ_LISTEN=0.0.0.0:0", "PQ_UNPROTECTED=nats"}, reads},
		"by default with a login":      {[]string{"NATS_USER=pq", "NATS_PASSWORD=0123456789abcdef"}, asks},
		"by default with tenants":      {[]string{"PQ_TENANTS=" + tenants}, reads},
		"by default with a host":       {[]string{"PQ_HTTP_HOSTS=pqd.example.com"}, reads},
		"by default with a token here": {[]string{"PQ_CONSOLE_TOKEN=" + token}, asks},
		"read":                         {[]string{"PQ_CONSOLE=read"}, reads},
		"off":                          {[]string{"PQ_CONSOLE=off"}, closed},
		"admin":                        {[]string{"PQ_CONSOLE=admin"}, changes},
		"by default on all addresses":  {[]string{"PQ_HTTP=0.0.0.0:0"}, closed},
		"by default with a token":      {[]string{"PQ_HTTP=0.0.0.0:0", "PQ_CONSOLE_TOKEN=" + token}, asks},
		"admin with a token":           {[]string{"PQ_HTTP=0.0.0.0:0", "PQ_CONSOLE=admin", "PQ_CONSOLE_TOKEN=" + token}, asks},
		"by default with a NATS file":  {[]string{"PQ_NATS_CONFIG=" + config, "PQ_LISTEN="}, closed},
		"on request with a NATS file":  {[]string{"PQ_NATS_CONFIG=" + config, "PQ_LISTEN=", "PQ_CONSOLE=admin"}, changes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testenv.Daemon(t, c.env...)
			at := strings.Replace(p.HTTP, "[::]", "127.0.0.1", 1)
			if code, body := pqd.Ask(t, "POST", at+"/v1/queues/jobs/push", "x"); code != c.want {
				t.Errorf("a push: %d %s, expected %d", code, body, c.want)
			}
			if code, body := pqd.Ask(t, "GET", at+"/v1/queues", ""); code != map[int]int{reads: 200, changes: 200, closed: 404, asks: 401}[c.want] {
				t.Errorf("a look: %d %s", code, body)
			}
			if c.want == asks {
				bearer := []string{"Authorization", "Bearer 0123456789abcdef"}
				want := reads
				if strings.Contains(name, "admin") {
					want = changes
				}
				if code, body := pqd.Ask(t, "POST", at+"/v1/queues/jobs/push", "x", bearer...); code != want {
					t.Errorf("a push with the token: %d %s, expected %d", code, body, want)
				}
			}
			if code, _ := pqd.Ask(t, "GET", at+"/readyz", ""); code != 200 {
				t.Errorf("/readyz: %d", code)
			}
			p.Stop(t)
		})
	}
}

// Where the NATS server has users, callers have the rights of the one that pqd logs in as
// for them.
func TestConsoleUser(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, `
		listen: "127.0.0.1:-1"
		authorization { users: [
			{user: pqd, password: p, permissions: {
				publish: ["pq.*.event.*", "_INBOX.>", "_R_.>", "$SYS.REQ.USER.INFO", "$SRV.*", "$SRV.*.pq", "$SRV.*.pq.*"]
				subscribe: ["pq.>", "_INBOX.>", "$SRV.*", "$SRV.*.pq", "$SRV.*.pq.*"]
			}}
			{user: web, password: p, permissions: {publish: ["pq.jobs.push", "pq.jobs.info"], subscribe: ["_INBOX.web.>"]}}
		]}`)
	env := []string{"PQ_NATS_CONFIG=" + config, "PQ_LISTEN=", "NATS_USER=pqd", "NATS_PASSWORD=p", "PQ_CONSOLE=admin"}
	web := testenv.Daemon(t, append(env, "PQ_CONSOLE_USER=web", "PQ_CONSOLE_PASSWORD=p", "PQ_CONSOLE_INBOX=_INBOX.web")...)
	for request, want := range map[string]int{"POST /v1/queues/jobs/push": 200, "GET /v1/queues/jobs": 200, "POST /v1/queues/jobs/pop": 403, "GET /v1/queues/others": 403} {
		method, path, _ := strings.Cut(request, " ")
		if request == "GET /v1/queues/jobs" {
			push := web.HTTP + "/v1/queues/jobs/push"
			if code, body := pqd.Ask(t, "POST", push, "x"); code != 200 {
				t.Errorf("%s: %d %s", push, code, body)
			}
		}
		if code, body := pqd.Ask(t, method, web.HTTP+path, ""); code != want {
			t.Errorf("%s: %d %s, expected %d", request, code, body, want)
		}
	}
	// pqd's own user may do nothing on behalf of others.
	own := testenv.Daemon(t, env...)
	if code, body := pqd.Ask(t, "POST", own.HTTP+"/v1/queues/jobs/push", "x"); code != 403 || !strings.Contains(body, "pq.jobs.push") {
		t.Errorf("a push: %d %s", code, body)
	}
	code, _, stderr := testenv.Run(t, append(env, "PQ_STORE=local:"+t.TempDir(), "PQ_HTTP=127.0.0.1:0", "PQ_CONSOLE_USER=web", "PQ_CONSOLE_PASSWORD=wrong"))
	if code != 1 || !strings.Contains(stderr, "PQ_CONSOLE_USER") {
		t.Errorf("a wrong password: exit code %d, %s", code, stderr)
	}
}
