package main_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/testenv"
)

// What the README's terminal sessions show is what happens. Every block fenced
// as console is run from the first to the last, against one pqd with default
// settings but for the ports. The nats command and curl need not be installed:
// what they would send is sent, and what they would print is compared. In what
// is printed, … stands for anything within a line.
func TestReadme(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	steps := sessions(string(text))
	if len(steps) < 3 {
		t.Fatalf("found %d commands in the README: expected a session", len(steps))
	}
	var p *testenv.Process
	var nc *nats.Conn
	for _, step := range steps {
		switch words := split(step.command); {
		case step.command == "go run ./cmd/pqd":
			p = testenv.Daemon(t, "PQ_STORE=")
			nc = p.Connect(t)
			compareReady(t, step.output, p.Log())
		case len(words) == 5 && strings.HasPrefix(step.command, "nats req --raw "):
			reply, err := nc.Request(words[3], []byte(words[4]), patience)
			if err != nil {
				t.Fatalf("%s: %v", step.command, err)
			}
			printed := string(reply.Data)
			if printed == "" {
				printed = "nil body" // what the command prints then
			}
			compare(t, step, printed)
		case len(words) == 3 && strings.HasPrefix(step.command, "curl -s http://127.0.0.1:8622/"):
			_, body := get(t, p.HTTP+strings.TrimPrefix(words[2], "http://127.0.0.1:8622"))
			compare(t, step, body)
		default:
			t.Fatalf("the README has a command that this test does not know: %s", step.command)
		}
	}
	p.Stop(t)
}

// step is a command of a session, and what it prints.
type step struct {
	command string
	output  string
}

var fence = regexp.MustCompile("(?ms)^```console\n(.*?)^```$")

func sessions(text string) []step {
	var steps []step
	for _, block := range fence.FindAllStringSubmatch(text, -1) {
		for line := range strings.Lines(block[1]) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				steps = append(steps, step{command: strings.TrimSpace(command)})
			} else if len(steps) > 0 {
				steps[len(steps)-1].output += line
			}
		}
	}
	return steps
}

// split cuts a command into words; single quotes hold one together.
func split(command string) []string {
	var words []string
	for _, match := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(command, -1) {
		if strings.HasPrefix(match[0], "'") {
			words = append(words, match[1])
		} else {
			words = append(words, match[0])
		}
	}
	return words
}

func compare(t *testing.T, step step, printed string) {
	t.Helper()
	if !pattern(step.output).MatchString(strings.TrimSpace(printed)) {
		t.Errorf("%s\nprints\n%s\nand the README says\n%s", step.command, printed, step.output)
	}
}

func pattern(shown string) *regexp.Regexp {
	parts := strings.Split(strings.TrimSpace(shown), "…")
	for i, part := range parts {
		parts[i] = regexp.QuoteMeta(part)
	}
	return regexp.MustCompile("^" + strings.Join(parts, ".*") + "$")
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
