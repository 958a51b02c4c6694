package clients_test

import (
	"bufio"
	"fmt"
	"io"
	"net/url"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
)

// pipeDriver is a driver in another language: a program that reads a line for each step, and prints a
// line for each answer, and one with a dot behind the last. The words of a line have tabs between
// them, and their bytes are escaped as in URLs.
//
//	step:   what, subject, body, milliseconds, then names and values of headers
//	answer: message, body, reply subject, then names and values of headers
//	        stored, stream, number, true if it is a duplicate
//	        error, word, code, err_code, text
type pipeDriver struct {
	cmd    *exec.Cmd
	input  io.WriteCloser
	output *bufio.Scanner
}

func startDriver(t *testing.T, cmd *exec.Cmd) *pipeDriver {
	t.Helper()
	input, output := talkTo(t, cmd)
	return &pipeDriver{cmd: cmd, input: input, output: output}
}

// talkTo starts a program, and returns its input and the lines of its output.
func talkTo(t *testing.T, cmd *exec.Cmd) (io.WriteCloser, *bufio.Scanner) {
	t.Helper()
	cmd.Stderr = t.Output()
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	lines.Buffer(nil, 1<<24)
	return input, lines
}

func (d *pipeDriver) End(t *testing.T) {
	t.Helper()
	if err := d.input.Close(); err != nil {
		t.Error(err)
	}
	if err := d.cmd.Wait(); err != nil {
		t.Errorf("the driver ended with %v", err)
	}
}

func (d *pipeDriver) Do(t *testing.T, step cases.Step, timeout time.Duration) (answers []cases.Answer) {
	t.Helper()
	words := []string{step.Do, step.Subject, step.Body, fmt.Sprint(timeout.Milliseconds())}
	for name, values := range step.Headers {
		for _, value := range values {
			words = append(words, name, value)
		}
	}
	for i, word := range words {
		words[i] = url.PathEscape(word)
	}
	if _, err := fmt.Fprintln(d.input, strings.Join(words, "\t")); err != nil {
		t.Fatal(err)
	}
	for d.output.Scan() {
		if d.output.Text() == "." {
			return answers
		}
		answers = append(answers, readAnswer(t, d.output.Text()))
	}
	t.Fatalf("the driver ended: %v", d.output.Err())
	return nil
}

func readAnswer(t *testing.T, line string) (a cases.Answer) {
	t.Helper()
	words := strings.Split(line, "\t")
	for i, word := range words {
		plain, err := url.PathUnescape(word)
		if err != nil {
			t.Fatalf("the driver prints %q: %v", line, err)
		}
		words[i] = plain
	}
	number := func(word string) int {
		n, err := strconv.Atoi(word)
		if err != nil {
			t.Fatalf("the driver prints %q: %v", line, err)
		}
		return n
	}
	switch {
	case words[0] == "message" && len(words)%2 == 1:
		a.Body, a.Reply, a.Headers = words[1], words[2], make(nats.Header)
		for i := 3; i < len(words); i += 2 {
			a.Headers[words[i]] = append(a.Headers[words[i]], words[i+1])
		}
	case words[0] == "stored" && len(words) == 4:
		a.Stored = &cases.Stored{Stream: words[1], Seq: uint64(number(words[2])), Duplicate: words[3] == "true"}
	case words[0] == "error" && len(words) == 5:
		a.Error, a.Code, a.ErrCode, a.Text = words[1], number(words[2]), number(words[3]), words[4]
	default:
		t.Fatalf("the driver prints %q: expected message, stored or error", line)
	}
	return a
}
