package main

import (
	"os"
	"strings"
	"testing"
)

// The reason of a failure is the last line that the program has said on its standard error, which is passed on; without one, how the
// program ended. A program that it has left running keeps nothing waiting.
func TestReasonOfAProgram(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	gate := w.fifo(t, "gate")
	long := strings.Repeat("x", 300)
	reasons := []string{"smtp 550 (sh: exit status 1)", "sh: exit status 3", strings.Repeat("x", 140) + " (sh: exit status 1)", "half a line (sh: exit status 4)", "gone (sh: exit status 1)"}
	w.pq(t, "config", "jobs", `backoff=["1ms"]`)
	w.pq(t, "push", "jobs", "x")
	for _, script := range []string{
		`echo first >&2; printf "smtp 550\n\n" >&2; exit 1`, "exit 3", "echo " + long + " >&2; exit 1", "printf 'a line\nhalf a line' >&2; exit 4",
		`(read line < "$HOME/gate"; echo later >&2) > "$HOME/out" & echo gone >&2; exit 1`,
	} {
		text := w.pq(t, "consume", "jobs", "--count", "1", "--", "sh", "-c", script)
		if !strings.Contains(text, "1 failure") {
			t.Errorf("%s: %s", script, text)
		}
		if strings.Contains(script, "550") && !strings.HasPrefix(text, "first\nsmtp 550\n\npq: item ") {
			t.Errorf("%s: its errors are passed on as %q", script, text)
		}
	}
	var want []string
	for _, reason := range reasons {
		want = append(want, "nak "+reason)
	}
	w.attempts(t, want...)
	if err := os.WriteFile(gate, []byte("go on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
