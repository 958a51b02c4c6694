package testenv

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
)

// Step is a command of a terminal session in a page of documentation, and what
// it prints there.
type Step struct {
	Where   string // file:line of the command
	Command string
	Output  string
}

// Steps returns the commands of the blocks fenced as console: the lines that
// begin with "$ ". What follows a command up to the next one is its output.
func Steps(t testing.TB, file string) []Step {
	t.Helper()
	var steps []Step
	for _, block := range Blocks(t, file, "console") {
		first, number := len(steps), 0
		for line := range strings.Lines(block.Text) {
			if command, is := strings.CutPrefix(line, "$ "); is {
				steps = append(steps, Step{Where: block.Where(number), Command: strings.TrimSpace(command)})
			} else if len(steps) > first {
				steps[len(steps)-1].Output += line
			}
			number++
		}
	}
	return steps
}

// Terminal runs the commands that documentation shows against one process and
// compares what they print. The nats command and curl need not be installed:
// what they would send is sent, and what they would print is compared.
//
// What a page shows is compared by [Shown]. Empty lines do not count, times may
// be any, and the headers of an answer stand in the order of their names. In a
// command, <id> and <ack> stand for the last id and ack subject that were printed.
//
// `nats sub` runs until Close, as it would in a terminal of its own.
type Terminal struct {
	process *Process
	nc      *nats.Conn
	printed map[string]string // what placeholders stand for
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
	return &Terminal{process: p, nc: p.Connect(t), printed: make(map[string]string)}
}

// Run runs a command and compares what it prints with what the page shows.
func (term *Terminal) Run(t testing.TB, step Step) {
	t.Helper()
	words := split(step.Command)
	for i, word := range words {
		words[i] = term.fill(t, step, word)
	}
	var lines []string
	var err error
	switch name := strings.Join(words[:min(2, len(words))], " "); {
	case name == "nats req":
		lines, err = term.request(words[2:])
	case name == "nats pub":
		lines, err = term.publish(words[2:])
	case name == "nats sub":
		err = term.subscribe(step, words[2:])
		step.Output = "" // compared by Close
	case name == "curl -s" && len(words) == 3:
		lines, err = term.get(words[2])
	default:
		t.Fatalf("%s: this test does not know the command: %s", step.Where, step.Command)
	}
	if err != nil {
		t.Fatalf("%s: %s: %v", step.Where, step.Command, err)
	}
	term.remember(lines)
	compare(t, step, lines)
}

// Close ends what still runs: each `nats sub` has to have printed what the page
// shows, in whatever order.
func (term *Terminal) Close(t testing.TB) {
	t.Helper()
	late := time.After(patience)
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
	term.nc.Close()
}

// split cuts a command into words; single quotes hold one together.
func split(command string) []string {
	var words []string
	for _, match := range regexp.MustCompile(`'([^']*)'|\S+`).FindAllStringSubmatch(command, -1) {
		words = append(words, cmp.Or(match[1], strings.Trim(match[0], "'")))
	}
	return words
}

var placeholder = regexp.MustCompile(`<(id|ack)>`)

func (term *Terminal) fill(t testing.TB, step Step, word string) string {
	t.Helper()
	return placeholder.ReplaceAllStringFunc(word, func(name string) string {
		value := term.printed[name]
		if value == "" {
			t.Fatalf("%s: %s: no %s was printed before", step.Where, step.Command, name)
		}
		return value
	})
}

var remarkable = map[string]*regexp.Regexp{
	"<id>":  regexp.MustCompile(`"id":"([^"]+)"|PQ-Id: (\S+)`),
	"<ack>": regexp.MustCompile(`PQ-Ack: (\S+)`),
}

func (term *Terminal) remember(lines []string) {
	for name, value := range remarkable {
		for _, match := range value.FindAllStringSubmatch(strings.Join(lines, "\n"), -1) {
			term.printed[name] = cmp.Or(match[1:]...)
		}
	}
}

// message reads what `nats req` and `nats pub` have in common.
func message(flags *flag.FlagSet, args []string) (*nats.Msg, error) {
	m := &nats.Msg{Header: make(nats.Header)}
	flags.SetOutput(io.Discard)
	flags.Func("H", "", func(s string) error {
		key, value, found := strings.Cut(s, ":")
		if !found {
			return errors.New("expected <name>:<value>")
		}
		m.Header.Add(strings.TrimSpace(key), strings.TrimSpace(value))
		return nil
	})
	// Flags may stand before, between and behind the arguments, up to "--".
	var words []string
	for rest := args; len(rest) > 0; {
		if err := flags.Parse(rest); err != nil {
			return nil, err
		}
		parsed := len(rest) - flags.NArg()
		if parsed > 0 && rest[parsed-1] == "--" {
			words = append(words, flags.Args()...)
			break
		}
		if rest = flags.Args(); len(rest) > 0 {
			words, rest = append(words, rest[0]), rest[1:]
		}
	}
	if len(words) != 2 {
		return nil, fmt.Errorf("found %q: expected a subject and a body", words)
	}
	m.Subject, m.Data = words[0], []byte(words[1])
	return m, nil
}

// stamp stands before what the nats command logs.
const stamp = "00:00:00 "

func (term *Terminal) request(args []string) (lines []string, err error) {
	flags := flag.NewFlagSet("nats req", flag.ContinueOnError)
	raw := flags.Bool("raw", false, "")
	replies := flags.Int("replies", 1, "")
	m, err := message(flags, args)
	if err != nil {
		return nil, err
	}
	m.Reply = term.nc.NewInbox()
	sub, err := term.nc.SubscribeSync(m.Reply)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sub.Unsubscribe()) }()
	if !*raw {
		lines = append(lines, fmt.Sprintf("%sSending request on %q", stamp, m.Subject))
	}
	if err := term.nc.PublishMsg(m); err != nil {
		return nil, err
	}
	for range *replies {
		reply, err := sub.NextMsg(patience)
		if errors.Is(err, nats.ErrNoResponders) {
			return append(lines, stamp+"No responders are available"), nil
		}
		if err != nil {
			return nil, err
		}
		if !*raw {
			lines = append(lines, stamp+"Received with rtt 1ms")
			for _, key := range slices.Sorted(maps.Keys(reply.Header)) {
				for _, value := range reply.Header[key] {
					lines = append(lines, stamp+key+": "+value)
				}
			}
		}
		lines = append(lines, body(reply))
	}
	return lines, nil
}

func (term *Terminal) publish(args []string) ([]string, error) {
	flags := flag.NewFlagSet("nats pub", flag.ContinueOnError)
	jetstream := flags.Bool("J", false, "")
	m, err := message(flags, args)
	if err != nil {
		return nil, err
	}
	lines := []string{fmt.Sprintf("%sPublished %d bytes to %q", stamp, len(m.Data), m.Subject)}
	if !*jetstream {
		return lines, errors.Join(term.nc.PublishMsg(m), term.nc.Flush())
	}
	js, err := term.nc.JetStream(nats.MaxWait(patience))
	if err != nil {
		return nil, err
	}
	ack, err := js.PublishMsg(m)
	if err != nil {
		return nil, err
	}
	stored := fmt.Sprintf("%sStored in Stream: %s Sequence: %d", stamp, ack.Stream, ack.Sequence)
	if ack.Duplicate {
		stored += " Duplicate: true"
	}
	return append(lines, stored), nil
}

func (term *Terminal) subscribe(step Step, args []string) error {
	if len(args) != 2 || args[0] != "--raw" {
		return errors.New("expected --raw and a subject")
	}
	const most = 1 << 10 // messages that nobody looks at before Close
	came := make(chan *nats.Msg, most)
	if _, err := term.nc.ChanSubscribe(args[1], came); err != nil {
		return err
	}
	term.subs = append(term.subs, listening{step, came})
	return term.nc.Flush()
}

// documentedHTTP is where pqd serves HTTP by default.
const documentedHTTP = "http://127.0.0.1:8622"

func (term *Terminal) get(url string) ([]string, error) {
	path, ours := strings.CutPrefix(url, documentedHTTP)
	if !ours {
		return nil, fmt.Errorf("expected a page of %s", documentedHTTP)
	}
	client := http.Client{Timeout: patience}
	response, err := client.Get(term.process.HTTP + path)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return []string{string(text)}, err
}

// body is how the nats command prints the body of a message.
func body(m *nats.Msg) string { return cmp.Or(string(m.Data), "nil body") }

var (
	logged = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	rtt    = regexp.MustCompile(`(?m)Received with rtt \S+$`)
)

func compare(t testing.TB, step Step, lines []string) {
	t.Helper()
	unify := func(s string) string {
		s = rtt.ReplaceAllString(logged.ReplaceAllString(s, stamp), "Received with rtt 1ms")
		return strings.Join(nonEmpty(s), "\n")
	}
	printed := unify(strings.Join(lines, "\n"))
	if !Shown(unify(step.Output)).MatchString(printed) {
		t.Errorf("%s: %s\nprints\n%s\nand the page says\n%s", step.Where, step.Command, printed, step.Output)
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
