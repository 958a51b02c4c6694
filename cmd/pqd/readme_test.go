package main_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/testenv"
)

// What the README's terminal sessions show is what happens, from the first to
// the last, with default settings but for the ports.
func TestReadme(t *testing.T) {
	const readme = "../../README.md"
	steps := testenv.Steps(t, readme)
	if len(steps) < 3 {
		t.Fatalf("found %d commands in the README: expected a session", len(steps))
	}
	if steps[0].Command != "go run ./cmd/pqd" {
		t.Fatalf("%s: expected pqd to be started first, found %s", steps[0].Where, steps[0].Command)
	}
	p := testenv.Daemon(t, "PQ_STORE=")
	compareReady(t, steps[0].Output, p.Log())
	terminal := p.Terminal(t)
	for _, step := range steps[1:] {
		terminal.Run(t, step)
	}
	terminal.Close(t)
	p.Stop(t)
}

// compareReady compares the ready line as shown, in the text format, with the
// one that was logged as JSON, but for the ports.
func compareReady(t *testing.T, shown, log string) {
	t.Helper()
	var logged map[string]string
	for line := range strings.Lines(log) {
		if strings.Contains(line, `"msg":"ready"`) {
			if err := json.Unmarshal([]byte(line), &logged); err != nil {
				t.Fatal(err)
			}
		}
	}
	delete(logged, "time")
	port := regexp.MustCompile(`:\d+$`)
	fields := regexp.MustCompile(`(\w+)=(\S+)`).FindAllStringSubmatch(shown, -1)
	if len(fields) != len(logged) {
		t.Errorf("the README shows %d fields of the ready line, pqd logs %v", len(fields), logged)
	}
	for _, field := range fields {
		expected, found := port.ReplaceAllString(field[2], ""), port.ReplaceAllString(logged[field[1]], "")
		if expected != "…" && expected != found {
			t.Errorf("ready line: the README shows %s=%s, pqd logs %s", field[1], expected, found)
		}
	}
}

// The README's table of settings is the one that --help prints.
func TestReadmeShowsTheSettings(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := make(map[string]string)
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:PQ|NATS)_\\w+)` \\|(.*)\\| (.*) \\|$").FindAllStringSubmatch(string(text), -1) {
		shown[row[1]] = strings.Join(strings.Fields(strings.ReplaceAll(row[2]+" "+row[3], "`", "")), " ")
	}
	_, help, _ := testenv.Run(t, nil, "--help")
	printed := 0
	for _, row := range regexp.MustCompile(`(?m)^((?:PQ|NATS)_\w+) +(.*)$`).FindAllStringSubmatch(help, -1) {
		printed++
		if meaning := strings.Join(strings.Fields(row[2]), " "); shown[row[1]] != meaning {
			t.Errorf("%s: the README says %q, --help says %q", row[1], shown[row[1]], meaning)
		}
	}
	if printed == 0 || printed != len(shown) {
		t.Errorf("the README has %d settings, --help %d", len(shown), printed)
	}
}
