package testenv

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// Transcript returns the commands of a file that is a terminal session from its
// first line to its last, in the notation of [Steps], and with some more:
//
//   - "< …" in front of a command is a line of its standard input
//   - "! …" is a line of standard error, "? 2" an exit code other than 0
//   - "$ X=$(pq …)" makes the output a variable for later commands and lines,
//     with "| .field" in the parentheses a field of it
//   - "# …" behind an empty line is a comment
func Transcript(t testing.TB, file string) []Step {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var steps []Step
	stdin, number, apart := "", 0, true
	for line := range strings.Lines(string(text)) {
		number++
		command, is := strings.CutPrefix(line, "$ ")
		comment := apart && strings.HasPrefix(line, "#")
		apart = comment || line == "\n"
		switch {
		case comment:
		case strings.HasPrefix(line, "< "), line == "<\n":
			stdin += strings.TrimPrefix(line[1:], " ")
		case is:
			steps = append(steps, Step{Where: fmt.Sprintf("%s:%d", file, number), Command: strings.TrimSpace(command), Stdin: stdin})
			stdin = ""
		case len(steps) > 0:
			steps[len(steps)-1].Output += line
		}
	}
	if len(steps) == 0 {
		t.Fatalf("%s has no commands", file)
	}
	return steps
}

// Program runs a program within the test.
type Program func(args []string, stdin string) (stdout, stderr string, code int)

// InProcess returns a terminal for transcripts in which one program is run, under
// its name, within the test. Variables are $NAME in commands and in what they print.
func InProcess(name string, run Program, variables map[string]string) *Terminal {
	return &Terminal{name: name, program: run, variables: variables}
}

var assignment = regexp.MustCompile(`^([A-Z]+)=\$\((.*?)(?: \| \.([a-z_]+))?\)$`)

// runProgram runs a command of a transcript and returns what it printed, as the
// transcript shows it.
func (term *Terminal) runProgram(t testing.TB, step Step) string {
	t.Helper()
	command, variable, field := step.Command, "", ""
	if m := assignment.FindStringSubmatch(command); m != nil {
		variable, command, field = m[1], m[2], m[3]
	}
	args := Words(term.expand(command))
	if len(args) == 0 || args[0] != term.name {
		t.Fatalf("%s: expected a command that begins with %s", step.Where, term.name)
	}
	stdout, stderr, code := term.program(args[1:], term.expand(step.Stdin))
	if strings.HasSuffix(stdout, "\n\n") {
		t.Errorf("%s: %q ends with an empty line", step.Where, stdout)
	}
	if variable != "" {
		value := strings.TrimSpace(stdout)
		if field != "" {
			var object map[string]any
			if err := json.Unmarshal([]byte(stdout), &object); err != nil {
				t.Fatalf("%s: %s: %v", step.Where, stdout, err)
			}
			value = fmt.Sprint(object[field])
		}
		term.variables[variable], stdout = value, ""
	}
	for line := range strings.Lines(stderr) {
		stdout = strings.TrimSuffix(stdout, "\n") + "\n! " + line
	}
	if code != 0 {
		stdout = strings.TrimSuffix(stdout, "\n") + fmt.Sprintf("\n? %d\n", code)
	}
	return stdout
}

// expand replaces each $NAME by the value of that variable. It leaves unknown names as they
// are.
func (term *Terminal) expand(text string) string {
	return os.Expand(text, func(name string) string {
		if value, known := term.variables[name]; known {
			return value
		}
		return "$" + name
	})
}

// Words splits a command line as a shell does, with quotes.
func Words(line string) (words []string) {
	var word strings.Builder
	var quote rune
	inside := false
	end := func() {
		if inside {
			words = append(words, word.String())
		}
		word.Reset()
		inside = false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == 0 && (c == '\'' || c == '"'):
			quote, inside = c, true
		case quote == 0 && (c == ' ' || c == '\n'):
			end()
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	end()
	return words
}
