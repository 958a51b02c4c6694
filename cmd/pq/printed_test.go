package main

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
	"github.com/pqbridge/pqbridge/protocol"
)

// shell runs a command of pq as a person who copies it.
func (w *terminal) shell(t *testing.T, command string) (code int, text string) {
	t.Helper()
	out, err := exec.Command("/bin/sh", "-c", `pq() { for word; do printf '%s\0' "$word"; done; }; `+command).Output()
	if err != nil {
		t.Fatalf("%s: %v", command, err)
	}
	return pq(t, w.env, strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")...)
}

// Commands that pq prints do what they say, whatever queues, keys and sources are called: no name is an option.
func TestPrintedCommandsWithNamesLikeOptions(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	for _, name := range []string{"--help", "-f", "-", "--", "jobs"} {
		does := func(command string) string {
			t.Helper()
			code, text := w.shell(t, command)
			if code != 0 {
				t.Errorf("%s: exit code %d: %s", command, code, text)
			}
			return text
		}
		steps := func(queue string, e protocol.Explain) string {
			t.Helper()
			e.Next = ":;"
			return does(show.NextStep(queue, &e))
		}
		id := func(command string) string {
			t.Helper()
			var item client.Listed
			if text := does(command); json.Unmarshal([]byte(text), &item) != nil || item.ID == "" {
				t.Fatalf("%s: %s", command, text)
			}
			return item.ID
		}
		does(show.Command("push", []string{name, "x"}, "--key='"+name+"'"))

		does(show.Command("key pause", []string{name, name}))
		steps(name, protocol.Explain{Cause: protocol.CauseBlocked, WaitsFor: "pause", Key: name})
		does(show.Command("pause", []string{name}))
		steps(name, protocol.Explain{Cause: protocol.CausePaused})
		leased := id(show.Command("pop", []string{name}, "--lease 1h --json")) // which neither pause keeps any more
		if id(show.Command("list", []string{name}, "--state leased --json")) != leased {
			t.Errorf("the leased item of %s is not listed", name)
		}
		steps(name, protocol.Explain{Cause: protocol.CauseLeased, Item: leased, Since: time.Unix(1, 0)})

		dies := func() {
			t.Helper()
			var item client.Listed
			var popped struct{ Ack string }
			text := does(show.Command("pop", []string{name}, "--lease 1h --json"))
			if json.Unmarshal([]byte(text), &item) != nil || json.Unmarshal([]byte(text), &popped) != nil {
				t.Fatalf("popped %s", text)
			}
			does(show.Command("terminate", []string{popped.Ack}, "--reason useless"))
		}
		dies()
		if text := steps(name+"-dead", protocol.Explain{Cause: protocol.CauseDeadLetters}); !strings.Contains(text, "useless") {
			t.Errorf("dead letters of %s: %s", name, text)
		}
		steps(name+"-dead", protocol.Explain{Cause: protocol.CauseDeadLetters, Item: id(show.Command("dead list", []string{name}, "--json"))})
		dies()
		does(show.Command("dead requeue", []string{name}, "--all"))
		if _, text := w.shell(t, show.NextStep(name, &protocol.Explain{Cause: protocol.CauseHeld, Next: ":;"})); !strings.Contains(text, "no links") {
			t.Errorf("links of %s: %s", name, text)
		}

		none := "no source " + name
		for _, state := range []string{protocol.SourcePaused, protocol.SourceStopped} {
			for _, way := range show.SourceWays(name, &client.Source{Name: name, State: state, Reason: protocol.StopPoisoned}) {
				if _, text := w.shell(t, way); !strings.Contains(text, none) {
					t.Errorf("%s: %s", way, text)
				}
			}
		}
	}
}
