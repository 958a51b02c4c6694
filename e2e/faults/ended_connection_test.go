package faults_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// shortLine is a max_control_line that answers within pqd's bounds exceed, and the requests for them do not: the line of
// a leased item has the subject that settles it, too.
const (
	shortLine = 900
	longInbox = 850
)

// A server ends the connection of a bridge that sends what it does not take, and nats.go takes that for final. pqd serves
// on another connection then, as often as it happens. Nothing is lost and nothing comes twice.
func TestConnectionEndedByTheServer(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(t *testing.T) *testenv.Process{
		"embedded": func(t *testing.T) *testenv.Process {
			config := filepath.Join(t.TempDir(), "nats.conf")
			pqd.Write(t, config, fmt.Sprint("max_control_line: ", shortLine))
			return testenv.Daemon(t, "PQ_NATS_CONFIG="+config)
		},
		"outside": func(t *testing.T) *testenv.Process {
			return testenv.Daemon(t, "NATS_URL="+testenv.NATS(t, func(o *server.Options) { o.MaxControlLine = shortLine }).URL())
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := start(t)
			nc := p.Connect(t)
			pqd.Push(t, nc, "jobs", 1, "leased")
			pqd.Push(t, nc, "jobs", 2, "next")
			waiter := listen(t, nc, nc.NewInbox())
			if err := nc.PublishMsg(&nats.Msg{Subject: "pq.later.pop.min", Reply: waiter.Subject, Header: nats.Header{"PQ-Wait": {"1m"}}}); err != nil {
				t.Fatal(err)
			}
			testenv.Await(t, "a pop waits", func() bool {
				_, page := pqd.Get(t, p.HTTP+"/metrics")
				return pqd.Metric(t, page, "pq_waiters") == 1
			})
			inbox := nc.NewInbox() + "."
			for times := range 2 {
				unheard := listen(t, nc, inbox+strings.Repeat("x", longInbox-len(inbox)))
				pop := &nats.Msg{Subject: "pq.jobs.pop.min", Reply: unheard.Subject, Header: nats.Header{"PQ-Lease": {"1s"}}}
				if err := nc.PublishMsg(pop); err != nil {
					t.Fatal(err)
				}
				testenv.Await(t, "pqd is not ready", func() bool {
					code, page := pqd.Get(t, p.HTTP+"/readyz")
					return code == 503 && strings.Contains(page, "another one is about to be made")
				})
				if code, page := pqd.Get(t, p.HTTP+"/healthz"); code != 200 {
					t.Errorf("/healthz: %d %s, expected 200: another start mends nothing", code, page)
				}
				testenv.Await(t, "pqd has another connection, and is ready", func() bool {
					code, _ := pqd.Get(t, p.HTTP+"/readyz")
					return code == 200 && strings.Count(p.Log(), "made another connection to NATS") == times+1
				})
				testenv.Await(t, "the lease has run out", func() bool {
					var info struct{ Ready int }
					return json.Unmarshal(pqd.Request(t, nc, "pq.jobs.info", "").Data, &info) == nil && info.Ready == 2
				})
				if m, err := unheard.NextMsg(1); err == nil {
					t.Errorf("%q came to the inbox", m.Data)
				}
			}
			for _, want := range []string{"leased", "next"} {
				if body := pqd.Pop(t, nc, "jobs", "min"); body != want {
					t.Errorf("popped %q, expected %q", body, want)
				}
			}
			pqd.Push(t, nc, "later", 1, "once")
			if body := pqd.Pop(t, nc, "later", "min"); body != "once" {
				t.Errorf("popped %q, expected what was pushed after the waiting pop's bridge had ended", body)
			}
			if m, err := waiter.NextMsg(1); err == nil {
				t.Errorf("the pop that waited got %q, %v", m.Data, m.Header)
			}
			p.Stop(t)
		})
	}
}

// The console and the HTTP interface have a connection of their own.
func TestConsoleConnectionEndedByTheServer(t *testing.T) {
	t.Parallel()
	config := filepath.Join(t.TempDir(), "nats.conf")
	pqd.Write(t, config, fmt.Sprint("max_control_line: ", shortLine))
	p := testenv.Daemon(t, "PQ_NATS_CONFIG="+config, "PQ_CONSOLE=admin")
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 1, "one")
	settle := func(conn, token int) (int, string) {
		return pqd.Ask(t, "POST", p.HTTP+"/v1/queues/jobs/settle?ack=pq.jobs.ack."+strings.Repeat("c", conn)+"."+strings.Repeat("t", token), "+ACK")
	}
	if code, text := settle(8, 5000); code != 403 || !strings.Contains(text, "expected at most 512 bytes") {
		t.Errorf("a token of 5,000 bytes: %d %s, expected 403", code, text)
	}
	if code, text := settle(500, 500); code != 504 {
		t.Errorf("a line that is too long: %d %s, expected 504, at once", code, text)
	}
	if code, page := pqd.Get(t, p.HTTP+"/readyz"); code != 503 || !strings.Contains(page, "the console's connection") {
		t.Errorf("/readyz: %d %s, expected 503 and the reason", code, page)
	}
	if code, text := pqd.Get(t, p.HTTP+"/v1/queues/jobs"); code != 503 {
		t.Errorf("a read meanwhile: %d %s, expected 503", code, text)
	}
	if body := pqd.Pop(t, nc, "jobs", "min"); body != "one" {
		t.Errorf("popped %q beside the console", body)
	}
	testenv.Await(t, "pqd is ready again", func() bool {
		code, _ := pqd.Get(t, p.HTTP+"/readyz")
		return code == 200
	})
	if code, text := pqd.Get(t, p.HTTP+"/v1/queues/jobs"); code != 200 {
		t.Errorf("a read afterwards: %d %s", code, text)
	}
	p.Stop(t)
}

// listen subscribes, and returns when the server knows.
func listen(t *testing.T, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.FlushTimeout(testenv.Patience())
	}
	if err != nil {
		t.Fatal(err)
	}
	return sub
}
