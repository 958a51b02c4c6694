package show_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// The next step is a command where one does it.
func TestNextStep(t *testing.T) {
	for _, tc := range []struct {
		queue   string
		explain protocol.Explain
		want    string
	}{
		{"jobs", protocol.Explain{Cause: protocol.CauseFlows}, ""},
		{"jobs", protocol.Explain{Cause: protocol.CauseNoWorkers, Next: "Start."}, "Start."},
		{"jobs", protocol.Explain{Cause: protocol.CausePaused, Next: "Resume."}, "Resume. pq resume jobs"},
		{"jobs", protocol.Explain{Cause: protocol.CauseBlocked, WaitsFor: "pause", Key: "ann", Next: "End."}, "End. pq key resume jobs ann"},
		{"jobs", protocol.Explain{Cause: protocol.CauseBlocked, WaitsFor: "pause", Key: "a\x1b[2J", Next: "End."}, `End. pq key resume jobs 'a\x1b[2J'`},
		{"jobs", protocol.Explain{Cause: protocol.CauseLeased, Item: "F1", Since: time.Unix(1, 0), Next: "Revoke."}, "Revoke. pq revoke jobs F1"},
		{"jobs", protocol.Explain{Cause: protocol.CauseDelayed, Item: "F1"}, ""},
		{"jobs", protocol.Explain{Cause: protocol.CauseDelayed, Item: "F1", Until: time.Unix(1, 0), Failing: 1, Next: "Look."}, "Look. pq list jobs --state delayed --attempts"},
		{"jobs", protocol.Explain{Cause: protocol.CauseFailing, Item: "F1", Failing: 2, Next: "Look."}, "Look. pq list jobs --attempts"},
		{"jobs-dead", protocol.Explain{Cause: protocol.CauseDeadLetters, Next: "Look."}, "Look. pq dead groups jobs"},
		{"jobs-dead", protocol.Explain{Cause: protocol.CauseDeadLetters, Item: "F1", Next: "Requeue."}, "Requeue. pq dead requeue jobs F1"},
		{"grave", protocol.Explain{Cause: protocol.CauseDeadLetters, Next: "Look."}, "Look."},
	} {
		if got := show.NextStep(tc.queue, &tc.explain); got != tc.want {
			t.Errorf("%s, %+v: %q, expected %q", tc.queue, tc.explain, got, tc.want)
		}
	}
}

// Arguments are no options, and options stay what they are.
func TestCommand(t *testing.T) {
	for _, tc := range []struct {
		args, options []string
		want          string
	}{
		{nil, nil, "pq do"},
		{[]string{"jobs", "a.b:c"}, []string{"--all", "--n <n>"}, "pq do jobs 'a.b:c' --all --n <n>"},
		{[]string{"jobs", "--help"}, nil, "pq do jobs -- '--help'"},
		{[]string{"-x", "-"}, []string{"--all"}, "pq do --all -- '-x' '-'"},
		{[]string{"jobs", ""}, []string{"--all"}, "pq do jobs '' --all"},
	} {
		if got := show.Command("do", tc.args, tc.options...); got != tc.want {
			t.Errorf("%q, %q: %s, expected %s", tc.args, tc.options, got, tc.want)
		}
	}
}

// A shell that gets the command takes the key of an item for a word, and runs nothing that a producer wrote there.
func TestNextStepInShell(t *testing.T) {
	for _, key := range []string{"ann", "$(echo run)", "`echo run`", "it's", "';echo run;'", `"$HOME"`, "a b", "!1", "~", "*", "a=b", "#a", "-n", "--help", ""} {
		e := protocol.Explain{Cause: protocol.CauseBlocked, WaitsFor: "pause", Key: key, Next: ":;"}
		out, err := exec.Command("/bin/sh", "-c", `pq() { for last; do :; done; printf '%s' "$last"; }; `+show.NextStep("jobs", &e)).CombinedOutput()
		if err != nil || string(out) != key {
			t.Errorf("the key %q is %q in a shell, %v", key, out, err)
		}
	}
}
