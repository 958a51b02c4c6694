package testenv

import (
	"cmp"
	"context"
	"errors"
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
