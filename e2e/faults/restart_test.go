package faults_test

import (
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

func TestPushAndPop(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 5, "five")
	pqd.Push(t, nc, "jobs", -1, "minus one")
	pqd.Push(t, nc, "jobs", 9, "nine")
	for _, step := range []struct{ end, body string }{{"min", "minus one"}, {"max", "nine"}, {"min", "five"}} {
		if body := pqd.Pop(t, nc, "jobs", step.end); body != step.body {
			t.Errorf("pop.%s: %q, expected %q", step.end, body, step.body)
		}
	}
	pqd.ExpectEmpty(t, nc, "jobs")
	nc.Close()
	p.Stop(t)
}

// After either kind of end the pushed items are there, in order, and the popped ones are
// not. PQ_SYNC=false risks items when the machine ends, not when the process does.
func TestRestartKeepsItems(t *testing.T) {
	t.Parallel()
	for _, sync := range []string{"true", "false"} {
		t.Run("PQ_SYNC="+sync, func(t *testing.T) {
			p := testenv.Daemon(t, "PQ_SYNC="+sync)
			for _, end := range []struct {
				name string
				end  func(testing.TB)
			}{{"SIGKILL", p.Kill}, {"SIGTERM", p.Stop}} {
				nc := p.Connect(t)
				for i, body := range []string{"c", "a", "b", "taken"} {
					pqd.Push(t, nc, "jobs", []int{3, 1, 2, 0}[i], body)
				}
				if body := pqd.Pop(t, nc, "jobs", "min"); body != "taken" {
					t.Fatalf("popped %q, expected the item for the pop", body)
				}
				nc.Close()
				end.end(t)
				p.Start(t)
				nc = p.Connect(t)
				if left := strings.Join(pqd.Drain(t, nc, "jobs"), " "); left != "a b c" {
					t.Errorf("after %s: %q, expected a b c", end.name, left)
				}
				nc.Close()
			}
			p.Stop(t)
		})
	}
}

func TestPrefixIsASetting(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_PREFIX=acme.queues")
	nc := p.Connect(t)
	reply, err := nc.Request("acme.queues.jobs.push.1", []byte("x"), testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	if !testenv.IsAck(reply) {
		t.Errorf("push: %s", reply.Data)
	}
}

func TestAutoCreateIsASetting(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_AUTO_CREATE=false")
	nc := p.Connect(t)
	reply, err := nc.Request("pq.jobs.push.1", []byte("x"), testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	if code := reply.Header.Get("Nats-Service-Error-Code"); code != "403" {
		t.Errorf("push to a queue that does not exist: code %q (%s), expected 403", code, reply.Header.Get("Nats-Service-Error"))
	}
}

func TestReplySubjectsAreASetting(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t, "PQ_REPLY_SUBJECTS=replies.>")
	nc := p.Connect(t)
	sub, err := nc.SubscribeSync("replies.x")
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.PublishRequest("pq.jobs.push.1", "replies.x", []byte("x")); err != nil {
		t.Fatal(err)
	}
	if reply, err := sub.NextMsg(testenv.Patience()); err != nil || !testenv.IsAck(reply) {
		t.Errorf("push: %v, %v", reply, err)
	}
}
