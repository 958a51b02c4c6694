package settings_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// openLog are the settings of a pqd that keeps its store in a stream of this server.
func openLog(t *testing.T, s *testenv.Server, more ...string) []string {
	t.Helper()
	return append([]string{
		"NATS_URL=" + s.URL(), "PQ_STORE=jetstream:pq?sync=always&replicas=1&max_bytes=64M", "PQ_NODE=a", "PQ_DATA=" + t.TempDir(),
		"PQ_HTTP=127.0.0.1:0",
	}, more...)
}

// Where clients without a login can read and purge the log, neither pqd init nor pqd goes
// on, unless the operator says so. Trying that purges nothing.
func TestLogForEverybody(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t, func(o *server.Options) { o.JetStream, o.StoreDir, o.SyncAlways = true, t.TempDir(), true })
	env := openLog(t, s)
	for _, args := range [][]string{{"init"}, nil} {
		code, _, stderr := testenv.Run(t, env, args...)
		for _, part := range []string{"PQ_STORE=jetstream:pq", "clients without a login can read and purge the log", "PQ_STORE_CREDS", "PQ_UNPROTECTED=log"} {
			if code != 2 || !strings.Contains(stderr, part) {
				t.Errorf("pqd %s: exit code %d, expected 2 and %q in: %s", args, code, part, stderr)
			}
		}
	}
	accepted := testenv.Daemon(t, append(env, "PQ_UNPROTECTED=log")...)
	nc := s.Connect(t)
	pqd.AskServing(t, nc, "pq.jobs.push.1", "kept")
	accepted.Stop(t)
	if !strings.Contains(accepted.Log(), "may be able to read and purge the log") {
		t.Errorf("pqd does not say what is open: %s", accepted.Log())
	}
	if code, _, _ := testenv.Run(t, env); code != 2 {
		t.Errorf("without the setting: exit code %d, expected 2", code)
	}
	again := testenv.Daemon(t, append(env, "PQ_UNPROTECTED=log")...)
	if got := string(pqd.AskServing(t, nc, "pq.jobs.pop.min", "").Data); got != "kept" {
		t.Errorf("popped %q, expected what was pushed before the log was tried", got)
	}
	again.Stop(t)
}

// What is tried are the rights of clients, not whether the server knows users: one without
// a login who may do little is no danger, and one who may only read is named as that.
func TestLogBehindLogins(t *testing.T) {
	t.Parallel()
	const anybody = `, {user: any, password: p, permissions: {subscribe: ["_INBOX.>"], publish: ["pq.>"%s]}}]}, no_auth_user: any`
	for name, c := range map[string]struct {
		users string
		says  string // as a refusal; "": pqd starts
	}{
		"all log in":           {"]}", ""},
		"clients without JS":   {fmt.Sprintf(anybody, ""), ""},
		"clients who may read": {fmt.Sprintf(anybody, `, "$JS.API.STREAM.INFO.>", "$JS.API.DIRECT.GET.>"`), "can read the log"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var parsed server.Options
			if err := parsed.ProcessConfigString("authorization { users: [{user: pqd, password: p}" + c.users); err != nil {
				t.Fatal(err)
			}
			s := testenv.NATS(t, func(o *server.Options) {
				o.JetStream, o.StoreDir, o.SyncAlways = true, t.TempDir(), true
				o.Users, o.NoAuthUser = parsed.Users, parsed.NoAuthUser
			})
			env := openLog(t, s, "NATS_USER=pqd", "NATS_PASSWORD=p")
			code, _, stderr := testenv.Run(t, env, "init")
			if c.says != "" {
				if code != 2 || !strings.Contains(stderr, c.says) {
					t.Errorf("pqd init: exit code %d, expected 2 and %q in: %s", code, c.says, stderr)
				}
				return
			}
			if code != 0 {
				t.Fatalf("pqd init: exit code %d, %s", code, stderr)
			}
			p := testenv.Daemon(t, env...)
			pqd.AskServing(t, s.Connect(t, nats.UserInfo("pqd", "p")), "pq.jobs.push.1", "x")
			p.Stop(t)
			if said := strings.Count(p.Log(), "shares an account with clients"); said != 1 {
				t.Errorf("pqd says %d times who else can use the log, expected once: %s", said, p.Log())
			}
		})
	}
}
