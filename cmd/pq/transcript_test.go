package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/testenv"
)

// The files in testdata are sessions in a terminal, each with a bridge of its
// own. A line "$ pq …" is run; what follows it is what has to come of that:
//
//	what is written to standard output
//	! what is written to standard error
//	? the exit code, unless it is 0
//
// A line "< …" in front of a command is a line of its standard input. In
// "$ X=$(pq …)" the output becomes a variable for later commands and lines, with
// "| .field" in the parentheses a field of it. An ellipsis stands for any text on
// its line, a line of two for any lines.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("found %d transcripts: %v", len(files), err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := newTerminal(t)
			for _, step := range steps(t, string(text)) {
				w.run(t, step)
			}
		})
	}
}

// terminal is where commands are run.
type terminal struct {
	nc   *nats.Conn
	dir  string
	env  []string
	vars map[string]string
}

func newTerminal(t *testing.T) *terminal {
	t.Helper()
	b := testenv.Bridge(t, bridge.Options{StoreName: "local:./pq-data"})
	dir := t.TempDir()
	return &terminal{
		nc:   b.NATS.Connect(t),
		dir:  dir,
		env:  []string{"HOME=" + dir, "NATS_URL=" + b.NATS.URL(), "NATS_TIMEOUT=30s", "PATH=" + os.Getenv("PATH")},
		vars: map[string]string{"DIR": dir, "URL": b.NATS.URL()},
	}
}

// step is a command with what has to come of it.
type step struct {
	line     int
	stdin    strings.Builder
	variable string
	field    string // of the output, which is JSON; "": all of it
	command  string
	want     []string
}

var assignment = regexp.MustCompile(`^([A-Z]+)=\$\((.*?)(?: \| \.([a-z_]+))?\)$`)

func steps(t *testing.T, text string) []*step {
	t.Helper()
	var all []*step
	next := &step{}
	for i, line := range strings.Split(strings.TrimRight(text, "\n"), "\n") {
		switch {
		case strings.HasPrefix(line, "#"):
		case line == "<", strings.HasPrefix(line, "< "):
			next.stdin.WriteString(strings.TrimPrefix(line[1:], " ") + "\n")
		case strings.HasPrefix(line, "$ "):
			next.line, next.command = i+1, line[2:]
			if m := assignment.FindStringSubmatch(next.command); m != nil {
				next.variable, next.command, next.field = m[1], m[2], m[3]
			}
			all = append(all, next)
			next = &step{}
		case len(all) > 0:
			last := all[len(all)-1]
			last.want = append(last.want, line)
		}
	}
	// Lines that are empty keep commands apart.
	for _, s := range all {
		for len(s.want) > 0 && s.want[len(s.want)-1] == "" {
			s.want = s.want[:len(s.want)-1]
		}
	}
	return all
}

func (w *terminal) run(t *testing.T, s *step) {
	t.Helper()
	args := words(t, w.expand(s.command))
	if len(args) == 0 || args[0] != "pq" {
		t.Fatalf("line %d: expected a command that begins with pq", s.line)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	defer cancel()
	var stdout, stderr bytes.Buffer
	code := run(ctx, args[1:], w.env, strings.NewReader(w.expand(s.stdin.String())), &stdout, &stderr)
	if s.variable != "" {
		w.vars[s.variable] = strings.TrimSpace(stdout.String())
		if s.field != "" {
			var object map[string]any
			if err := json.Unmarshal(stdout.Bytes(), &object); err != nil {
				t.Fatalf("line %d: %s: %v", s.line, stdout.String(), err)
			}
			w.vars[s.variable] = fmt.Sprint(object[s.field])
		}
		stdout.Reset()
	}
	got := output(stdout.String(), stderr.String(), code)
	want := make([]string, len(s.want))
	for i, line := range s.want {
		want[i] = w.expand(line)
	}
	if !matches(want, got) {
		t.Errorf("line %d: $ %s\n%s\n--- expected\n%s", s.line, s.command, strings.Join(got, "\n"), strings.Join(s.want, "\n"))
	}
}

// expand puts the values of variables where $NAME stands. Other names are left
// to whoever knows them.
func (w *terminal) expand(line string) string {
	return os.Expand(line, func(name string) string {
		if value, known := w.vars[name]; known {
			return value
		}
		return "$" + name
	})
}

// output is what came of a command, in the form of a transcript.
func output(stdout, stderr string, code int) []string {
	var lines []string
	if stdout != "" {
		lines = strings.Split(strings.TrimSuffix(stdout, "\n"), "\n")
	}
	if stderr != "" {
		for line := range strings.SplitSeq(strings.TrimSuffix(stderr, "\n"), "\n") {
			lines = append(lines, "! "+line)
		}
	}
	if code != 0 {
		lines = append(lines, fmt.Sprintf("? %d", code))
	}
	return lines
}

const (
	anyText  = "…"
	anyLines = "……"
)

func matches(want, got []string) bool {
	for i, line := range want {
		if line == anyLines {
			for n := range len(got) - i + 1 {
				if matches(want[i+1:], got[i+n:]) {
					return true
				}
			}
			return false
		}
		if i >= len(got) {
			return false
		}
		pattern := strings.ReplaceAll(regexp.QuoteMeta(narrow(line)), anyText, ".*")
		if !regexp.MustCompile("^" + pattern + "$").MatchString(narrow(got[i])) {
			return false
		}
	}
	return len(want) == len(got)
}

// narrow takes out what aligns columns: it depends on the ids, which differ in
// length.
func narrow(line string) string { return strings.Join(strings.Fields(line), " ") }

// words splits a command line as a shell does, with quotes.
func words(t *testing.T, line string) []string {
	t.Helper()
	var all []string
	var word strings.Builder
	var quote rune
	in := false
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, in = c, true
		case c == ' ':
			if in {
				all = append(all, word.String())
			}
			word.Reset()
			in = false
		default:
			word.WriteRune(c)
			in = true
		}
	}
	if quote != 0 {
		t.Fatalf("%s: a quote does not end", line)
	}
	if in {
		all = append(all, word.String())
	}
	return all
}
