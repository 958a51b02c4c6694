package settings_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// NATS_USER and NATS_PASSWORD are a login for everybody, also beyond loopback addresses:
// over NATS, and as the token of HTTP, whose console is there without another setting.
func TestOwnLogin(t *testing.T) {
	t.Parallel()
	const password = "a password of 16 or more"
	login := []string{"NATS_USER=pq", "NATS_PASSWORD=" + password}
	for name, env := range map[string][]string{
		"on all addresses": append(login, "PQ_LISTEN=0.0.0.0:0", "PQ_HTTP=0.0.0.0:0"),
		"on loopback":      login,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := testenv.Daemon(t, env...)
			at := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1")
			url, page := at.Replace(p.URL), at.Replace(p.HTTP)
			if nc, err := nats.Connect(url); err == nil {
				nc.Close()
				t.Error("connected without a login")
			}
			nc, err := nats.Connect(url, nats.UserInfo("pq", password), nats.Timeout(testenv.Patience()))
			if err != nil {
				t.Fatal(err)
			}
			defer nc.Close()
			pqd.Push(t, nc, "jobs", 1, "x")
			for token, want := range map[string]int{"": http.StatusUnauthorized, "another one": http.StatusUnauthorized, password: http.StatusOK} {
				var header []string
				if token != "" {
					header = []string{"Authorization", "Bearer " + token}
				}
				code, body := pqd.Ask(t, "GET", page+"/v1/queues", "", header...)
				if code != want {
					t.Errorf("the HTTP interface with the token %q: %d %s, expected %d", token, code, body, want)
				}
				if says := strings.Contains(body, "the password in NATS_PASSWORD"); says != (want == http.StatusUnauthorized) {
					t.Errorf("the HTTP interface with the token %q does not say what the token is: %s", token, body)
				}
				if wrong := strings.Contains(body, "this is not the token"); wrong != (token == "another one") {
					t.Errorf("the HTTP interface with the token %q: %s", token, body)
				}
			}
			if code, body := pqd.Ask(t, "GET", page+"/", ""); code != http.StatusOK || !strings.Contains(body, "<html") {
				t.Errorf("the console: %d %s", code, body)
			}
			p.Stop(t)
			if log := p.Log(); strings.Contains(log, password) || strings.Contains(log, "Plaintext") || strings.Contains(log, "may do more") {
				t.Errorf("expected neither the password nor a warning of pqd's own user in: %s", log)
			}
		})
	}
}

// What an operator opens to everybody is open, and pqd says so at each start.
func TestUnprotected(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_LISTEN=0.0.0.0:0", "PQ_HTTP=0.0.0.0:0", "PQ_CONSOLE=read", "PQ_UNPROTECTED=nats, http")
	at := strings.NewReplacer("0.0.0.0", "127.0.0.1", "[::]", "127.0.0.1")
	nc, err := nats.Connect(at.Replace(p.URL), nats.Timeout(testenv.Patience()))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	pqd.Push(t, nc, "jobs", 1, "x")
	if code, body := pqd.Ask(t, "GET", at.Replace(p.HTTP)+"/v1/queues", ""); code != http.StatusOK {
		t.Errorf("the HTTP interface: %d %s", code, body)
	}
	for _, part := range []string{"need no login to use the embedded NATS server", "need no token to use the HTTP interface"} {
		if strings.Count(p.Log(), part) != 1 {
			t.Errorf("expected %q once in: %s", part, p.Log())
		}
	}
	p.Stop(t)
}
