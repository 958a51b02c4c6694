package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
	"github.com/pqbridge/pqbridge/testenv"
)

// guarded is a bridge on a server with three users: the bridge's, an admin with all
// rights, and a producer for the queue jobs.
func guarded(t *testing.T) *testenv.Server {
	t.Helper()
	g, err := subjects.New("pq")
	if err != nil {
		t.Fatal(err)
	}
	p, err := g.Producer("jobs")
	if err != nil {
		t.Fatal(err)
	}
	s := testenv.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{
			{Username: "bridge", Password: "b"},
			{Username: "admin", Password: "a"},
			{Username: "producer", Password: "p", Permissions: &server.Permissions{
				Publish:   &server.SubjectPermission{Allow: p.Publish},
				Subscribe: &server.SubjectPermission{Allow: p.Subscribe},
			}},
		}
	})
	startBridge(t, s, "bridge", "b")
	return s
}

// startBridge starts a bridge that logs in.
func startBridge(t *testing.T, s *testenv.Server, user, password string) {
	t.Helper()
	serveStore(t, s.Connect(t, nats.UserInfo(user, password)), testenv.Store(t))
}

// serveStore runs a bridge on a store until the test ends.
func serveStore(t *testing.T, nc *nats.Conn, store *fdbpq.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	b, err := bridge.Start(ctx, nc, store, bridge.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), testenv.Patience())
		defer cancel()
		if err := b.Drain(ctx); err != nil {
			t.Errorf("drain the bridge: %v", err)
		}
	})
}

// homeWith is a home directory with contexts of the nats command.
func homeWith(t *testing.T, selected string, contexts map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, ".config/nats/context"), 0o700); err != nil {
		t.Fatal(err)
	}
	files := map[string]string{"context.txt": selected + "\n"}
	for name, text := range contexts {
		files["context/"+name+".json"] = text
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, ".config/nats", name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// pq runs a command and returns everything it has written.
func pq(t *testing.T, env []string, args ...string) (code int, text string) {
	t.Helper()
	var out together
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience())
	defer cancel()
	code = run(ctx, args, env, strings.NewReader(""), &out, &out)
	return code, out.String()
}

// together is what pq and the programs that it runs have written, at the same time.
type together struct {
	mu   sync.Mutex
	text strings.Builder
}

func (w *together) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(b)
}

func (w *together) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestLogins(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	dir := homeWith(t, "admin", map[string]string{
		"admin":    `{"description": "all of it", "url": "` + s.URL() + `", "user": "admin", "password": "a"}`,
		"producer": `{"url": "` + s.URL() + `", "user": "producer", "password": "p"}`,
		"nobody":   `{"url": "` + s.URL() + `"}`,
		"env":      `{"url": "` + s.URL() + `", "creds": "env://CREDS"}`,
		"proxy":    `{"url": "` + s.URL() + `", "socks_proxy": "x"}`,
		"broken":   `{`,
	})
	at := "HOME=" + dir
	for _, tc := range []struct {
		name string
		env  []string
		args []string
		code int
		text string
	}{
		{"the selected context", nil, []string{"ls"}, 3, "no queues"},
		{"a context by variable", []string{"NATS_CONTEXT=nobody"}, []string{"ls"}, 1, "Authorization Violation"},
		{"a context by flag", []string{"NATS_CONTEXT=nobody"}, []string{"ls", "--context", "admin"}, 3, "no queues"},
		{"a context as a file", nil, []string{"ls", "--context", filepath.Join(dir, ".config/nats/context/nobody.json")}, 1, "Authorization Violation"},
		{"variables", []string{"NATS_CONTEXT=nobody", "NATS_USER=admin", "NATS_PASSWORD=a"}, []string{"ls"}, 3, "no queues"},
		{"flags above variables", []string{"NATS_USER=x", "NATS_PASSWORD=y"}, []string{"--user=admin", "ls", "--password", "a"}, 3, "no queues"},
		{"not half of a login", []string{"NATS_TOKEN=x"}, []string{"ls"}, 1, "Authorization Violation"},
		{"no such context", nil, []string{"ls", "--context", "other"}, 2, `no context "other"`},
		{"no context's name", nil, []string{"ls", "--context", "../x"}, 2, "expected a name"},
		{"a context with another scheme", nil, []string{"ls", "--context", "env"}, 1, "expected a file, or nsc://"},
		{"a proxy that is no URL", nil, []string{"ls", "--context", "proxy"}, 1, "expected a URL such as socks5://"},
		{"a broken context", nil, []string{"ls", "--context", "broken"}, 1, "context broken: "},
		{"half of a certificate", nil, []string{"ls", "--tlscert", "x"}, 2, "expected both"},
		{"no nkey", nil, []string{"ls", "--nkey", filepath.Join(dir, "none")}, 1, "expected a file with an NKey seed"},
		{"an odd timeout", []string{"NATS_TIMEOUT=x"}, []string{"ls"}, 2, "NATS_TIMEOUT"},
		{"what the server does not permit", []string{"NATS_CONTEXT=producer", "NATS_TIMEOUT=50s"}, []string{"pop", "jobs"}, 1,
			"does not let this user do that"},
		{"what it does", []string{"NATS_CONTEXT=producer"}, []string{"push", "jobs", "x"}, 0, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			code, text := pq(t, append(tc.env, at), tc.args...)
			if code != tc.code || !strings.Contains(text, tc.text) {
				t.Errorf("exit code %d, %s, expected %d and %s", code, text, tc.code, tc.text)
			}
		})
	}
}

// No output has a part of a password or a token, wherever it stands and whatever is wrong.
func TestOutputHasNoLogin(t *testing.T) {
	t.Parallel()
	home := homeWith(t, "", map[string]string{
		"proxy":     `{"url": "nats://127.0.0.1:1", "socks_proxy": "socks5://u:SEC RET@127.0.0.1:1"}`,
		"odd-proxy": `{"url": "nats://127.0.0.1:1", "socks_proxy": "odd://u:SECRET@127.0.0.1:1"}`,
		"gone":      `{"url": "nats://u:SECRET@127.0.0.1:1", "socks_proxy": "socks5://u:SECRET@127.0.0.1:1"}`,
	})
	s := testenv.NATS(t, func(o *server.Options) { o.Authorization = "SECRET" })
	serveStore(t, s.Connect(t, nats.Token("SECRET")), testenv.Store(t))
	byToken := strings.Replace(s.URL(), "//", "//SECRET@", 1)
	silent := func(env []string, args ...string) {
		t.Helper()
		_, text := pq(t, append(env, "HOME="+home), args...)
		if text == "" || strings.Contains(text, "SEC") || strings.Contains(text, "RET") {
			t.Errorf("%s: %s prints %q", env, args, text)
		}
	}
	for _, url := range []string{
		"nats://u:SECRET@127.0.0.1:1", "nats://SECRET@127.0.0.1:1", "SECRET@127.0.0.1:1", "nats://127.0.0.1:1,nats://u:SECRET@127.0.0.1:1,SECRET@127.0.0.1:2", "wss://u:SECRET@127.0.0.1:1",
		"nats://u:SEC RET@127.0.0.1:1", "nats://u:SEC/RET@127.0.0.1:1", "nats://u:SEC#RET@127.0.0.1:1", "nats://u:SEC%RET@127.0.0.1:1", "nats://u:SEC,RET@127.0.0.1:1",
		strings.Replace(s.URL(), "//", "//u:SECRET@", 1), strings.Replace(s.URL(), "//", "//SECRETS@", 1), // which are refused
	} {
		for _, args := range [][]string{{"ls"}, {"ls", "--json"}, {"doctor"}, {"top", "--count", "1"}, {"consume", "jobs", "cat"}, {"help"}, {"help", "push"}} {
			silent([]string{"NATS_URL=" + url, "NATS_PASSWORD=SECRET", "NATS_TOKEN=SECRET"}, args...)
		}
		silent(nil, "ls", "--server", url)
	}
	for _, args := range [][]string{{"ls"}, {"doctor"}, {"top", "--count", "1"}} {
		silent([]string{"NATS_URL=" + byToken}, args...)
	}
	for _, of := range []string{"proxy", "odd-proxy", "gone"} {
		silent(nil, "ls", "--context", of)
	}
}

func TestDoctorOfAProducer(t *testing.T) {
	t.Parallel()
	s := guarded(t)
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_USER=producer", "NATS_PASSWORD=p", "NATS_TIMEOUT=20s"}
	code, text := pq(t, env, "doctor", "jobs")
	for _, want := range []string{
		"discovery    this user may not ask for services", "may not info, list, peek", "bridge       not known",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("expected it to say: %s", want)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("exit code %d\n%s", code, text)
	}
}

func TestDoctorWithoutBridge(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	code, text := pq(t, []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL()}, "doctor")
	if want := "FAIL  bridge       none is connected to this NATS server"; code != 1 || !strings.Contains(text, want) {
		t.Errorf("exit code %d\n%s\nexpected 1 and %s", code, text, want)
	}
}
