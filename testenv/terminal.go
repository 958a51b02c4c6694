package testenv

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
)

// Step is a command of a terminal session in a page of documentation, with its output there.
type Step struct {
	Where   string // file:line of the command
	Command string
	Stdin   string // of a [Transcript]
	Output  string
}

// Steps returns the commands of the blocks fenced as console: the lines that begin with "$ ", continued by lines
// that begin with "> ". The lines up to the next command are its output.
func Steps(t testing.TB, file string) []Step {
	t.Helper()
	var steps []Step
	for _, block := range Blocks(t, file, "console") {
		first, number := len(steps), 0
		for line := range strings.Lines(block.Text) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				steps = append(steps, Step{Where: block.Where(number), Command: strings.TrimSpace(command)})
			} else if more, is := strings.CutPrefix(line, "> "); is && len(steps) > first && steps[len(steps)-1].Output == "" {
				steps[len(steps)-1].Command += "\n" + strings.TrimRight(more, "\n")
			} else if len(steps) > first {
				steps[len(steps)-1].Output += line
			}
			number++
		}
	}
	return steps
}

// Terminal runs the commands of a page against one process and compares their output with
// the page. A bash runs them, with the real pq. Stand-ins for nats and curl send and print
// what the real commands would.
//
// [Shown] compares the output. Empty lines and the width of columns do not count, times and
// ports may be any, and the headers of an answer are sorted by name. In a command, <id> and
// <ack> are the last printed id and ack subject. [InProcess] returns a terminal for
// transcripts, which compares in the same way.
//
// `nats sub` runs until Close, as in a terminal of its own. A command with ^C in its output
// runs until it has printed the lines before ^C.
type Terminal struct {
	name      string // of the program that is run within the test, or ""
	program   Program
	variables map[string]string

	process *Process // nil with a program
	nc      *nats.Conn
	bash    *shell            // nil until it is needed
	printed map[string]string // the values of placeholders
	curl    func(args []string) (string, error)
	subs    []listening
}

// listening is a `nats sub` that runs.
type listening struct {
	step Step
	came chan *nats.Msg
}

// Terminal returns a terminal for the commands that reach this process.
func (p *Process) Terminal(t testing.TB) *Terminal {
	t.Helper()
	return &Terminal{process: p, nc: p.Connect(t), printed: make(map[string]string), curl: curl}
}

// UseCurl makes commands run the real curl.
func (term *Terminal) UseCurl(path string) {
	term.curl = func(args []string) (string, error) {
		ctx, cancel := context.WithTimeout(context.Background(), Most)
		defer cancel()
		text, err := exec.CommandContext(ctx, path, args...).CombinedOutput()
		return string(text), err
	}
}

// Run runs a command, compares its output with the page, and returns it.
func (term *Terminal) Run(t testing.TB, step Step) (printed string) {
	t.Helper()
	if term.program != nil {
		text := term.runProgram(t, step)
		step.Output = term.expand(step.Output)
		compare(t, step, text)
		return text
	}
	command := strings.NewReplacer(documentedHTTP, term.process.HTTP, documentedNATS, term.process.URL).Replace(term.fill(t, step))
	words := Words(command)
	var lines []string
	var text string
	var err error
	switch name := strings.Join(words[:min(2, len(words))], " "); {
	case strings.Contains(step.Output, interrupt+"\n"):
		text, err = term.process.untilInterrupted(t, command, step.Output)
	case name == "nats req" && plain(command):
		lines, err = natsRequest(term.nc, words[2:])
	case name == "nats pub" && plain(command):
		lines, err = natsPublish(term.nc, words[2:])
	case name == "nats sub" && plain(command):
		err = term.subscribe(step, words[2:])
		step.Output = "" // compared by Close
	case words[0] == "curl" && plain(command):
		text, err = term.curl(words[1:])
	default:
		if term.bash == nil {
			term.bash = term.process.shell(t)
		}
		text, err = term.bash.run(command)
	}
	lines = append(lines, text)
	if err != nil {
		t.Fatalf("%s: %s: %v\n%s", step.Where, step.Command, err, strings.Join(lines, "\n"))
	}
	term.remember(lines)
	printed = strings.NewReplacer(term.process.HTTP, documentedHTTP, term.process.URL, documentedNATS).Replace(strings.Join(lines, "\n"))
	compare(t, step, printed)
	return printed
}

// Close ends each `nats sub` after it has printed the lines of the page, in any order.
func (term *Terminal) Close(t testing.TB) {
	t.Helper()
	late := Late()
	for _, sub := range term.subs {
		missing := nonEmpty(sub.step.Output)
		for len(missing) > 0 {
			select {
			case m := <-sub.came:
				seen := func(line string) bool { return Shown(line).MatchString(body(m)) }
				if i := slices.IndexFunc(missing, seen); i >= 0 {
					missing = slices.Delete(missing, i, i+1)
				} else {
					t.Logf("%s: %s prints also\n%s", sub.step.Where, sub.step.Command, body(m))
				}
			case <-late:
				t.Fatalf("%s: %s did not print\n%s", sub.step.Where, sub.step.Command, strings.Join(missing, "\n"))
			}
		}
	}
	if term.bash != nil {
		if err := term.bash.close(); err != nil {
			t.Errorf("the shell ended with %v", err)
		}
	}
	term.nc.Close()
}

var placeholder = regexp.MustCompile(`<(id|ack)>`)

func (term *Terminal) fill(t testing.TB, step Step) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(step.Command, func(name string) string {
		value := term.printed[name]
		if value == "" {
			t.Fatalf("%s: %s: no %s was printed before", step.Where, step.Command, name)
		}
		return value
	})
}

var remarkable = map[string]*regexp.Regexp{
	"<id>":  regexp.MustCompile(`"id":"([^"]+)"|PQ-Id: (\S+)`),
	"<ack>": regexp.MustCompile(`"ack":"([^"]+)"|(?:PQ-Ack: |pq ack )(\S+)`),
}

func (term *Terminal) remember(lines []string) {
	for name, value := range remarkable {
		for _, match := range value.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
			term.printed[name] = cmp.Or(match[1:]...)
		}
	}
}

func (term *Terminal) subscribe(step Step, args []string) error {
	if len(args) != 2 || args[0] != "--raw" {
		return errors.New("expected --raw and a subject")
	}
	const most = 1 << 10 // messages that wait for Close
	came := make(chan *nats.Msg, most)
	if _, err := term.nc.ChanSubscribe(args[1], came); err != nil {
		return err
	}
	term.subs = append(term.subs, listening{step, came})
	return term.nc.Flush()
}

var (
	logged = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	rtt    = regexp.MustCompile(`(?m)Received with rtt \S+$`)
)

// The addresses at which pqd listens by default, and so in documentation.
const (
	documentedNATS = "nats://127.0.0.1:4222"
	documentedHTTP = "http://127.0.0.1:8622"
)

// compare compares the output of a command with the page, except for times, empty lines and the width of columns.
func compare(t testing.TB, step Step, printed string) {
	t.Helper()
	unify := func(s string) string {
		s = rtt.ReplaceAllString(logged.ReplaceAllString(s, stamp), "Received with rtt 1ms")
		lines := nonEmpty(s)
		for i, line := range lines {
			lines[i] = strings.Join(strings.Fields(line), " ")
		}
		return strings.Join(lines, "\n")
	}
	if !Shown(unify(step.Output)).MatchString(unify(printed)) {
		t.Errorf("%s: %s\nprints\n%s\nexpected\n%s", step.Where, step.Command, printed, step.Output)
	}
}

func nonEmpty(s string) (lines []string) {
	for line := range strings.Lines(s) {
		if line = strings.TrimRight(line, " \n"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

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

// Block is a fenced block of a page of documentation.
type Block struct {
	File string
	Line int // of its first line
	Text string
}

// Where returns the position of a line of the block, counted from 0.
func (b *Block) Where(line int) string { return fmt.Sprintf("%s:%d", b.File, b.Line+line) }

// Blocks returns the blocks of a Markdown file that are fenced as a language, in their order. There has to be at
// least one.
func Blocks(t testing.TB, file, language string) []Block {
	t.Helper()
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []Block
	var block *Block // at this line
	inside, number := false, 0
	for line := range strings.Lines(string(page)) {
		number++
		tag, fence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case fence && inside:
			inside, block = false, nil
		case fence:
			inside = true
			if tag == language {
				blocks = append(blocks, Block{File: file, Line: number + 1})
				block = &blocks[len(blocks)-1]
			}
		case block != nil:
			block.Text += line
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s has no block fenced as %s", file, language)
	}
	return blocks
}

// Shown matches the output of a program that a page shows: in it, … stands for
// anything within a line, and alone on a line for any number of lines. <id> on a
// line of its own stands for the id of an item.
func Shown(text string) *regexp.Regexp {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if line == "…" {
			lines[i] = `.*(\n.*)*`
			continue
		}
		if line == "<id>" {
			lines[i] = `[\w-]+`
			continue
		}
		parts := strings.Split(line, "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		lines[i] = strings.Join(parts, ".*")
	}
	return regexp.MustCompile("^" + strings.Join(lines, "\n") + "$")
}
