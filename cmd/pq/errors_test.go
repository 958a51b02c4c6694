package main

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/protocol"
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

// Of a request that nobody serves pq says what the pqd of a cluster say: who is away, and how many have to be there. Without a cluster, and
// for a user who may not ask one, it says what it says of a pqd that does not run.
func TestUnservedRequestsNameTheCluster(t *testing.T) {
	t.Parallel()
	s := testenv.NATS(t, func(o *server.Options) {
		o.Users = []*server.User{{Username: "operator", Password: "p"}, {Username: "worker", Password: "p", Permissions: &server.Permissions{
			Publish: &server.SubjectPermission{Deny: []string{"*._sys.cluster.>"}},
		}}}
	})
	nc := s.Connect(t, nats.UserInfo("operator", "p"))
	respond := func(subject string, answer *nats.Msg) {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.RespondMsg(answer) }); err != nil {
			t.Fatal(err)
		}
	}
	refusal := func(code, text string) *nats.Msg {
		return &nats.Msg{Header: nats.Header{micro.ErrorCodeHeader: {code}, micro.ErrorHeader: {text}}}
	}
	const (
		nobody  = "no bridge is there (503)\n"
		running = nobody + "Is pqd running, and is its prefix the same (--prefix)? \"pq doctor\" looks closer.\n"
		away    = "b was last heard 700ms ago, c was last heard 2s ago; heard: 1 of 3, and with PQ_CLUSTER 2 have to be there: start those that are away"
		status  = ". \"pq cluster status\" shows them.\n"
		commits = "the store cannot commit now"
	)
	const follows, silent = protocol.RoleFollower, protocol.RoleSilent
	missing := []client.Member{{Node: "b", Role: silent, Heard: 0.7}, {Node: "c", Role: silent, Heard: 2}}
	for prefix, tc := range map[string]struct {
		members []client.Member // as the first one of them says; none: nobody answers
		refuses string          // what a bridge answers; "": there is none
		want    string          // behind the command
	}{
		"away":     {append([]client.Member{{Node: "a", Role: follows}}, missing...), "", nobody + "None of 3 pqd is active: " + away + status},
		"objects":  {append([]client.Member{{Node: "a", Role: follows, Reason: "no log"}}, missing...), "", nobody + "None of 3 pqd is active: " + away + "; a says: no log" + status},
		"ended":    {[]client.Member{{Node: "a", Role: client.RoleActive, Heard: 0.1}, {Node: "b", Role: follows}, {Node: "c", Role: follows}}, "", nobody + "None of 3 pqd is active: a was last heard 100ms ago; heard: 2 of 3, and with PQ_CLUSTER 2 have to be there" + status},
		"together": {[]client.Member{{Node: "a", Role: follows}, {Node: "b", Role: follows}}, "", nobody + "None of 2 pqd is active: they wait for each other, which takes some seconds" + status},
		"begins":   {[]client.Member{{Node: "a", Role: client.RoleActive}, {Node: "b", Role: follows}}, "", running},
		"few":      {append([]client.Member{{Node: "a", Role: client.RoleActive}}, missing...), "503", commits + " (503)\nThe active pqd hears too few others: " + away + status},
		"busy":     {append([]client.Member{{Node: "a", Role: client.RoleActive}}, missing...), "429", commits + " (429)\nThe active pqd hears too few others: " + away + status},
		"unknown":  {append([]client.Member{{Node: "a", Role: client.RoleActive}}, missing...), "504", commits + " (504)\nThe active pqd hears too few others: " + away + status},
		"enough":   {[]client.Member{{Node: "a", Role: client.RoleActive}, {Node: "b", Role: follows}}, "503", commits + " (503)\n"},
		"single":   {nil, "503", commits + " (503)\n"},
		"none":     {nil, "", running},
	} {
		if tc.members != nil {
			body, err := json.Marshal(client.Cluster{Node: "a", Members: tc.members})
			if err != nil {
				t.Fatal(err)
			}
			respond(prefix+"._sys.cluster.status", &nats.Msg{Data: body})
		}
		if tc.refuses != "" {
			for _, subject := range []string{".jobs.>", "._sys.list"} {
				respond(prefix+subject, refusal(tc.refuses, "the store cannot commit now"))
			}
			if tc.members == nil {
				respond(prefix+"._sys.cluster.status", refusal("400", "this pqd keeps its store alone"))
			}
		}
		for command, args := range map[string][]string{"push jobs": {"push", "jobs", "x"}, "pop jobs": {"pop", "jobs"}, "queues": {"ls"}} {
			for _, user := range []string{"operator", "worker"} {
				t.Run(prefix+" "+command+" "+user, func(t *testing.T) {
					t.Parallel()
					env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + s.URL(), "NATS_USER=" + user, "NATS_PASSWORD=p", "NATS_TIMEOUT=" + testenv.Patience().String()}
					want := tc.want
					if user == "worker" { // it hears of no cluster
						want = running
						if tc.refuses != "" {
							want = commits + " (" + tc.refuses + ")\n"
						}
					}
					exit := session.ExitUnavailable
					if tc.refuses == "504" {
						exit = session.ExitFailed
					}
					code, text := pq(t, env, append(args, "--prefix", prefix)...)
					if want = "pq: " + command + ": " + want; code != exit || text != want {
						t.Errorf("exit code %d, %q; expected %d and %q", code, text, exit, want)
					}
				})
			}
		}
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
}
