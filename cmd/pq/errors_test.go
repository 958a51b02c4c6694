package main

import (
	"bytes"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// written is the unread output of a running command.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
	more chan struct{}
}

func newWritten() *written { return &written{more: make(chan struct{}, 1)} }

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	select {
	case w.more <- struct{}{}:
	default: // it is known that there is more
	}
	return w.text.Write(p)
}

// await waits for a text, and counts the output up to it as read.
func (w *written) await(t *testing.T, text string) {
	t.Helper()
	found := func() bool {
		w.mu.Lock()
		defer w.mu.Unlock()
		_, _, is := strings.Cut(w.text.String(), text)
		if is {
			w.text.Reset()
		}
		return is
	}
	for late := testenv.Late(); !found(); {
		select {
		case <-w.more:
		case <-late:
			t.Fatalf("it has not written %q, but %q", text, w.text.String())
		}
	}
}

// An error is printed once, with one prefix.
func TestErrorsArePrintedOnce(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	large := strings.Repeat("x", 2<<20)
	for _, tc := range []struct {
		stdin io.Reader
		args  []string
		want  string
	}{
		{strings.NewReader(large), []string{"push", "jobs", "-"}, "2097"},
		{strings.NewReader(large), []string{"push", "jobs", "--file", "-"}, "2097"},
		{strings.NewReader("a\nb\nc\n"), []string{"push", "jobs", "-", "--delay", "1000000h"}, "--delay"},
		{nil, []string{"consume", "jobs", "no-such-program"}, `the program "no-such-program": executable file not found`},
		{nil, []string{"ls", "--creds", "no-such-file"}, "no such file"},
		{nil, []string{"ls", "--nkey", "no-such-file"}, "no such file"},
		{nil, []string{"ls", "--nkey", "errors_test.go"}, "no nkey seed found"},
		{nil, []string{"ls", "--inbox-prefix", "a b"}, "--inbox-prefix"},
		{nil, []string{"ls", "--inbox-prefix", "a.>"}, "--inbox-prefix"},
	} {
		_, wait := w.beginWith(t, tc.stdin, tc.args...)
		code, text := wait()
		if code == 0 || code == session.ExitUnavailable || strings.Count(text, tc.want) != 1 || strings.Count(text, "pq: ") != 1 ||
			strings.Contains(text, "nats: ") || strings.Contains(text, "nkeys: ") {
			t.Errorf("%s: exit code %d: %s\nexpected %q, once", strings.Join(tc.args, " "), code, text, tc.want)
		}
	}
}

// Whoever answers in the place of pqd does nothing to a terminal: errors are shown with their control characters escaped.
func TestErrorsDoNothingToATerminal(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	nc := server.Connect(t)
	text := "\x1b]0;title\x07\x1b[31mred\u009b2J\u202e"
	if _, err := nc.Subscribe("other.>", func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error": {text}, "Nats-Service-Error-Code": {"403"}, "Status": {"403"}}})
	}); err != nil {
		t.Fatal(err)
	}
	if err := nc.FlushTimeout(testenv.Patience()); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + server.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
	for _, args := range [][]string{
		{"result", "jobs", "FBUBAX_Af0DSUlItAA"}, {"result", "jobs", "FBUBAX_Af0DSUlItAA", "--wait", "1m"}, {"push", "jobs", "x", "--wait", "1m"}, {"pop", "jobs"},
		{"ack", "other.jobs.ack.c.t"}, {"info", "jobs"}, {"consume", "jobs"}, {"export", "jobs"}, {"import", "jobs", "--file", "testdata/cut.jsonl", "--verify=false"},
	} {
		code, out := pq(t, env, append([]string{"--prefix", "other"}, args...)...)
		if want := `\x1b]0;title\a\x1b[31mred\u009b2J\u202e`; code == 0 || !strings.Contains(out, want) || strings.ContainsAny(out, "\x1b\a\u009b\u202e") {
			t.Errorf("%s: exit code %d: %q, expected %q", strings.Join(args, " "), code, out, want)
		}
	}
}
