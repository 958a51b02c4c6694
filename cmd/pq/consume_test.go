package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// With --result the output of a program is the result of an item that asks for one, and is printed otherwise. Work whose output is too large
// is done once.
func TestResultOfAProgram(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	push := func(args ...string) string {
		return strings.TrimSpace(w.pq(t, append([]string{"push", "jobs"}, args...)...))
	}
	consume := func(script string) string {
		return w.pq(t, "consume", "jobs", "--stop-when-empty", "--result", "--dead-exit", "99", "--", "sh", "-c", script)
	}
	sum := push("1+2", "--result-ttl", "1h")
	if text := consume("echo $(($(cat)))"); strings.HasPrefix(text, "3") || !strings.Contains(text, "1 item handled") {
		t.Errorf("the output is not the result alone: %s", text)
	}
	if got := w.pq(t, "result", "jobs", sum, "--raw"); got != "3\n" {
		t.Errorf("the result is %q", got)
	}
	push("3+4")
	if text := consume("echo $(($(cat)))"); !strings.HasPrefix(text, "7\n") {
		t.Errorf("the output for an item that asks for nothing: %s", text)
	}
	failed := push("5+6", "--result-ttl", "1h")
	if text := consume("echo half; echo no sum >&2; exit 99"); !strings.Contains(text, "1 failure") {
		t.Errorf("a program that fails: %s", text)
	}
	large := push("x", "--result-ttl", "1h")
	consume("head -c 8388609 /dev/zero")
	left, gate := push("x", "--result-ttl", "1h"), w.fifo(t, "gate")
	consume(`echo mine; (read line < "$HOME/gate"; echo later) &`)
	if err := os.WriteFile(gate, []byte("go on\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string][]string{
		failed: {"dead", "no sum (sh: exit status 99)"},
		large:  {"dead", "the output of sh is too large for a result: allowed are 8388608 bytes", "Deliveries: 1"},
		left:   {"done", "mine"},
	} {
		_, got := pq(t, w.env, "result", "jobs", id)
		for _, text := range want {
			if !strings.Contains(got, text) {
				t.Errorf("the result is %s, expected %q in it", got, text)
			}
		}
	}
}

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

// A program knows what its item costs, and says what the work has really cost, however it ends. What is no number costs the item nothing
// but a warning.
func TestSpentOfAProgram(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "config", "jobs", "cost_rate=1000000/24h")
	reserved, spent := 0, 0
	for _, tc := range []struct {
		script string
		spent  int
		says   []string // lines
	}{
		{script: `echo $PQ_COST; echo 30 > "$PQ_SPENT_FILE"`, spent: 30, says: []string{"50"}},
		{script: `printf 90 > "$PQ_SPENT_FILE"`, spent: 90},
		{script: `echo 0 > "$PQ_SPENT_FILE"`},
		{script: `echo no sum >&2; echo 7 > "$PQ_SPENT_FILE"; exit 99`, spent: 7, says: []string{"no sum (sh: exit status 99)", "1 failure"}},
		{script: `test ! -e "$PQ_SPENT_FILE"`, spent: 50},
		{script: `echo many > "$PQ_SPENT_FILE"`, spent: 50, says: []string{`it costs what it had reserved: PQ_SPENT_FILE has "many": expected a number from 0 to 1000000`}},
		{script: `echo 1000001 > "$PQ_SPENT_FILE"`, spent: 50, says: []string{`has "1000001": expected`}},
		{script: `echo -1 > "$PQ_SPENT_FILE"`, spent: 50, says: []string{`has "-1": expected`}},
		{script: `: > "$PQ_SPENT_FILE"`, spent: 50, says: []string{`has "": expected`}},
		{script: `mkdir "$PQ_SPENT_FILE"`, spent: 50, says: []string{"it costs what it had reserved: PQ_SPENT_FILE: read "}},
	} {
		w.pq(t, "push", "jobs", "x", "--cost", "50", "--result-ttl", "1h")
		said := w.pq(t, "consume", "jobs", "--count", "1", "--dead-exit", "99", "--", "sh", "-c", tc.script)
		if len(tc.says) < 2 {
			tc.says = append(tc.says, "1 item handled, 0 failures")
		}
		for _, text := range tc.says {
			if !strings.Contains(said, text) {
				t.Errorf("%s: %s, expected %q in it", tc.script, said, text)
			}
		}
		if reserved, spent = reserved+50, spent+tc.spent; !strings.Contains(w.pq(t, "info", "jobs", "--json"), fmt.Sprintf(`"cost":{"reserved":%d,"spent":%d}`, reserved, spent)) {
			t.Fatalf("%s: %s, expected %d reserved and %d spent", tc.script, w.pq(t, "info", "jobs", "--json"), reserved, spent)
		}
	}
	w.pq(t, "push", "jobs", "x")
	w.pq(t, "push", "jobs", "x")
	said := w.pq(t, "consume", "jobs", "--count", "2", "--", "sh", "-c", `echo "$PQ_COST $PQ_SPENT_FILE"; echo 5 > "$PQ_SPENT_FILE"`)
	var files []string
	for line := range strings.Lines(said) {
		if file, is := strings.CutPrefix(strings.TrimSpace(line), "1 /"); is {
			files = append(files, "/"+file)
		}
	}
	if len(files) != 2 || files[0] == files[1] {
		t.Fatalf("the files of two items are %q: %s", files, said)
	}
	if _, err := os.Stat(filepath.Dir(files[0])); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the folder of %s is left: %v", files[0], err)
	}
}
