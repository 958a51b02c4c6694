package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/spf13/pflag"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/testenv"
)

// Each header of a push is a flag.
func TestPushFlags(t *testing.T) {
	t.Parallel()
	all := pflag.NewFlagSet("push", pflag.ContinueOnError)
	new(pushing).flags(all)
	for _, h := range protocol.PushHeaders {
		name := strings.ReplaceAll(h.Word, "_", "-")
		if h.Name == protocol.HeaderMsgID {
			name = "id"
		}
		if all.Lookup(name) == nil {
			t.Errorf("pq push has no flag --%s for %s: write it in cmd/pq/push.go", name, h.Name)
		}
	}
}

// answering returns a session and the queue jobs of a bridge that answers requests as a
// test says.
func answering(t *testing.T, answers map[string]func(n int) *nats.Msg) (*session.Session, *client.Queue) {
	t.Helper()
	s := testenv.NATS(t)
	bridge := s.Connect(t)
	for verb, answer := range answers {
		n := 0
		if _, err := bridge.Subscribe("pq.jobs."+verb, func(m *nats.Msg) {
			a := answer(n)
			n++
			if err := m.RespondMsg(a); err != nil {
				t.Error(err)
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := bridge.Flush(); err != nil {
		t.Fatal(err)
	}
	c, err := client.New(s.Connect(t), client.Timeout(testenv.Patience()), client.MaxBundle(1))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	return session.New(t.Context(), nil, strings.NewReader(""), &out, &out), c.Queue("jobs")
}

func refusal(code int) *nats.Msg {
	return &nats.Msg{Header: nats.Header{"Nats-Service-Error-Code": {fmt.Sprint(code)}, "Nats-Service-Error": {"refused"}}}
}

func pushAck(n int) *nats.Msg {
	return &nats.Msg{Data: fmt.Appendf(nil, `{"stream":"jobs","seq":%d,"id":"i%d","priority":0}`, n+1, n)}
}

// A bounded number of pushes is unanswered at a time.
func TestPipelineIsBounded(t *testing.T) {
	t.Parallel()
	s, q := answering(t, map[string]func(int) *nats.Msg{"push": pushAck})
	p := newPipeline(s, q)
	for range pipelineDepth + 2 {
		if err := p.push([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if len(p.pending) > pipelineDepth {
			t.Fatalf("%d pushes are unanswered", len(p.pending))
		}
	}
	if err := p.finish(); err != nil || p.done != pipelineDepth+2 {
		t.Errorf("%d done, %v", p.done, err)
	}
}

// Large payloads are fewer at a time; one that is larger than the room goes alone.
func TestPipelineHasRoomForBytes(t *testing.T) {
	t.Parallel()
	s, q := answering(t, map[string]func(int) *nats.Msg{"push": pushAck})
	p := newPipeline(s, q)
	p.room = 1000
	for i, size := range []int{100, 300, 300, 300, 1, 2000, 400, 400, 400} {
		if err := p.push(make([]byte, size)); err != nil {
			t.Fatal(err)
		}
		if p.bytes > max(p.room, size) || size > p.room && len(p.pending) > 1 {
			t.Errorf("with item %d %d bytes of %d items are unanswered", i, p.bytes, len(p.pending))
		}
	}
	if err := p.finish(); err != nil || p.done != 9 || p.bytes != 0 {
		t.Errorf("%d done, %d bytes left, %v", p.done, p.bytes, err)
	}
}

// What was pushed after a failure does not count, although it may be in the queue: done
// says where to go on.
func TestPipelineCountsUpToAFailure(t *testing.T) {
	t.Parallel()
	s, q := answering(t, map[string]func(int) *nats.Msg{"push": func(n int) *nats.Msg {
		if n == 1 {
			return &nats.Msg{Data: []byte(`{"error":{"code":400,"err_code":30400,"description":"refused"}}`)}
		}
		return pushAck(n)
	}})
	p := newPipeline(s, q)
	for range 3 {
		if err := p.push([]byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if err := p.finish(); err == nil || p.done != 1 {
		t.Errorf("%d done, %v", p.done, err)
	}
}

// Items that stand before their predecessor are counted, for each priority; those with a
// place, or pushed before, have none.
func TestPipelineCountsDisorder(t *testing.T) {
	t.Parallel()
	p := newPipeline(nil, nil)
	for _, one := range []client.Pushed{
		{Priority: 1, Seq: 5}, {Priority: 2, Seq: 3}, {Priority: 1, Seq: 4}, {Priority: 1, Seq: 6}, {Priority: 1, Seq: 1, Duplicate: true},
	} {
		p.note(one)
	}
	if p.disorder != 1 || p.doubles != 1 {
		t.Errorf("%d in disorder and %d pushed before, want 1 and 1", p.disorder, p.doubles)
	}
	p.placed = true
	if p.note(client.Pushed{Priority: 1, Seq: 2}); p.disorder != 1 {
		t.Error("an item with a place is in disorder")
	}
}

// An export leaves out a large item that is taken while it runs, and ends with the error
// that ends it.
func TestExportMeetsRefusals(t *testing.T) {
	t.Parallel()
	large := func(int) *nats.Msg {
		return &nats.Msg{Data: []byte(`{"items":[{"id":"i","priority":1,"state":"ready","pushed":"2030-01-02T03:04:05Z","size":9}]}`)}
	}
	for name, c := range map[string]struct {
		answers map[string]func(int) *nats.Msg
		want    string
	}{
		"taken":        {map[string]func(int) *nats.Msg{"list": large, "get.*": func(int) *nats.Msg { return refusal(404) }}, ""},
		"get refused":  {map[string]func(int) *nats.Msg{"list": large, "get.*": func(int) *nats.Msg { return refusal(413) }}, "refused"},
		"list refused": {map[string]func(int) *nats.Msg{"list": func(int) *nats.Msg { return refusal(400) }}, "refused"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, q := answering(t, c.answers)
			var out bytes.Buffer
			n, err := (&exporting{states: []client.State{client.Ready}}).write(s, q, &out, 1, nil, nil)
			if n != 0 || c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("exported %d items, %v", n, err)
			}
		})
	}
}

// An import resumes a queue that was paused before with --resume alone.
func TestImportIntoPausedQueue(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t)
	startBridge(t, s, "", "")
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
	file := filepath.Join(t.TempDir(), "jobs.jsonl")
	for _, step := range []struct {
		command string
		paused  bool
	}{
		{"push jobs x", false},
		{"export jobs -o " + file, false},
		{"pause jobs", true},
		{"import jobs --file " + file, true},
		{"import jobs --resume --file " + file, false},
	} {
		if code, text := pq(t, env, strings.Fields(step.command)...); code != 0 {
			t.Fatalf("%s: exit code %d: %s", step.command, code, text)
		}
		if code, text := pq(t, env, "info", "jobs", "--json"); code != 0 || strings.Contains(text, `"paused":true`) != step.paused {
			t.Errorf("after %s: exit code %d: %s", step.command, code, text)
		}
	}
}
