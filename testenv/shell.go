package testenv

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// shell is a bash that runs one command after another, so that later ones see the variables of earlier ones. pq and
// pqd are built and run; nats and curl are stand-ins of this package.
type shell struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Reader
}

// endMark is printed behind the output of each command.
const endMark = "\x01end of output"

// tools builds the programs and returns a directory with the commands of a shell.
var tools = sync.OnceValues(func() (string, error) {
	pq, err := built("cmd/pq")
	pqd, daemonErr := built("cmd/pqd")
	if err := errors.Join(err, daemonErr); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(binaries, "tools")
	return dir, errors.Join(os.Mkdir(dir, 0o755), os.Symlink(pq, filepath.Join(dir, "pq")), os.Symlink(pqd, filepath.Join(dir, "pqd")),
		os.Symlink(self, filepath.Join(dir, "nats")), os.Symlink(self, filepath.Join(dir, "curl")))
})

// asTool runs the test's own program as a tool, if it was called by the name of one.
func asTool(args []string) {
	switch filepath.Base(args[0]) {
	case "nats":
		os.Exit(natsCommand(args[1:], os.Stdout, os.Stderr))
	case "curl":
		os.Exit(curlCommand(args[1:], os.Stdout, os.Stderr))
	}
}

// Command prepares a program that has the commands pq, pqd, nats and curl, and finds this process by NATS_URL. It
// is killed when it has not ended in time, or when the test ends. Its output is complete before the end of the
// test, which may log it.
func (p *Process) Command(t testing.TB, name string, args ...string) *exec.Cmd {
	t.Helper()
	dir, err := tools()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), Most)
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = p.work
	cmd.Env = append(environment(), "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+p.work, "NATS_URL="+p.URL, "NATS_TIMEOUT="+Patience().String())
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	t.Cleanup(func() {
		defer cancel()
		if cmd.Process != nil {
			_ = cmd.Wait() // the test may have waited for it
		}
	})
	return cmd
}

func (p *Process) shell(t testing.TB) *shell {
	t.Helper()
	cmd := p.Command(t, "bash", "--noprofile", "--norc")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		t.Fatalf("start a shell: %v", err)
	}
	return &shell{cmd, input, bufio.NewReader(output)}
}

// run returns what a command printed.
func (s *shell) run(command string) (string, error) {
	defer time.AfterFunc(Most, func() { _ = s.cmd.Cancel() }).Stop() // a command may do much
	if _, err := fmt.Fprintf(s.input, "{ %s\n} </dev/null\necho '%s'\n", command, endMark); err != nil {
		return "", err
	}
	var text strings.Builder
	for {
		line, err := s.output.ReadString('\n')
		if before, ended := strings.CutSuffix(line, endMark+"\n"); ended {
			return text.String() + before, nil
		}
		text.WriteString(line)
		if err != nil {
			return text.String(), fmt.Errorf("the shell ended, or the command took too long: %w", err)
		}
	}
}

func (s *shell) close() error {
	return errors.Join(s.input.Close(), s.cmd.Wait())
}

// interrupt is Ctrl-C as a terminal shows it, in the output of a command that it ends.
const interrupt = "^C"

// untilInterrupted runs a command, waits until it has printed the lines before ^C, in any
// order, and interrupts it. It returns the printed lines in the page's order.
func (p *Process) untilInterrupted(t testing.TB, command, shown string) (string, error) {
	t.Helper()
	before, _, _ := strings.Cut(shown, interrupt+"\n")
	cmd := p.Command(t, "bash", "--noprofile", "--norc", "-c", "exec "+command)
	output, err := cmd.StdoutPipe()
	if err != nil {
		return "", err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return "", err
	}
	defer time.AfterFunc(Patience(), func() { _ = cmd.Cancel() }).Stop()
	missing, ordered := nonEmpty(before), bytes.Buffer{}
	found := make([]string, len(missing))
	lines := bufio.NewScanner(output)
	for slices.Contains(found, "") {
		if !lines.Scan() {
			return strings.Join(found, "\n"), errors.Join(errors.New("it ended before it had printed what the page shows"), cmd.Wait())
		}
		i := slices.IndexFunc(missing, func(line string) bool { return line != "" && Shown(line).MatchString(lines.Text()) })
		if i < 0 {
			return lines.Text(), errors.New("this line is not shown on the page")
		}
		missing[i], found[i] = "", lines.Text()
	}
	ordered.WriteString(strings.Join(append(found, interrupt), "\n") + "\n")
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		return "", err
	}
	for lines.Scan() {
		ordered.WriteString(lines.Text() + "\n")
	}
	return ordered.String(), errors.Join(lines.Err(), cmd.Wait())
}

// plain reports whether a command needs no shell: it has only words, perhaps in single
// quotes.
func plain(command string) bool {
	unquoted := regexp.MustCompile(`'[^']*'`).ReplaceAllString(command, "")
	return !strings.ContainsAny(unquoted, "|&;<>()$`\\\"'\n#")
}

// The curl command, as far as documentation uses it.

// curlCommand is the command as a program. It returns the exit code.
func curlCommand(args []string, stdout, stderr io.Writer) int {
	text, err := curl(args)
	if err != nil {
		fmt.Fprintln(stderr, "curl:", err)
		return 1
	}
	if _, err := io.WriteString(stdout, text); err != nil {
		return 1
	}
	return 0
}

func curl(args []string) (string, error) {
	method, page, body := http.MethodGet, "", ""
	for next := 0; next < len(args); next++ {
		value := ""
		if next+1 < len(args) {
			value = args[next+1]
		}
		switch args[next] {
		case "-s":
		case "-X":
			method = value
			next++
		case "-d":
			body = value
			next++
		default:
			page = args[next]
		}
	}
	if args[0] != "-s" || !strings.HasPrefix(page, "http://127.0.0.1:") {
		return "", fmt.Errorf("found %q: expected -s, perhaps -X and -d, and a page of pqd", args)
	}
	request, err := http.NewRequest(method, page, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	client := http.Client{Timeout: Patience()}
	response, err := client.Do(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// Requests returns a well-formed subject of each verb that a client may ask of a queue.
func Requests(t testing.TB, g subjects.Grammar, queue string) map[subjects.Verb]string {
	t.Helper()
	arguments := strings.NewReplacer("<queue>", queue, "<priority>", "5", "<connection>", "c", "<token>", "t", "<id>", "x", "<key>", "k", "<name>", "n")
	all := make(map[subjects.Verb]string)
	for i := range protocol.Ops {
		if !protocol.Ops[i].OfQueue() {
			continue
		}
		for _, form := range protocol.Ops[i].Subjects() {
			text := g.Prefix() + "." + arguments.Replace(form)
			s, err := g.Parse(text)
			if err != nil {
				t.Fatalf("%s: %v", form, err)
			}
			if all[s.Verb] == "" {
				all[s.Verb] = text
			}
		}
	}
	return all
}
