package clients_test

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/cases"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/tools"
	"github.com/pqbridge/pqbridge/testenv"
)

// natsTool is where .ci/run installs the nats command.
const natsTool = "../testdata/clients/bin"

func TestCasesInTheTerminal(t *testing.T) {
	t.Parallel()
	tool, err := tools.Find("nats", natsTool)
	if err != nil {
		t.Skip("NOT TESTED WITH THE NATS COMMAND: .ci/run installs it")
	}
	home := t.TempDir() // without contexts
	runCases(t, "nats", func(t *testing.T, p *testenv.Process) cases.Driver {
		return &natsDriver{tool: tool, env: append(os.Environ(), "NATS_URL="+p.URL, "HOME="+home, "XDG_CONFIG_HOME="+home)}
	})
}

// natsDriver is the nats command: each step is a command.
type natsDriver struct {
	tool string
	env  []string
}

func (d *natsDriver) End(*testing.T) {}

func (d *natsDriver) Do(t *testing.T, step cases.Step, timeout time.Duration) []cases.Answer {
	t.Helper()
	var args []string
	switch step.Do {
	case "publish":
		args = []string{"pub", "-J", "--no-templates"}
	case "request":
		args = []string{"req", "--no-templates"}
	case "many":
		args = []string{"req", "--no-templates", "--wait-for-empty"}
	case "send":
		args = []string{"pub", "--no-templates"}
	default:
		return []cases.Answer{{Error: "other", Text: "the command has no such thing"}}
	}
	args = append(args, "--timeout", timeout.String())
	for name, values := range step.Headers {
		for _, value := range values {
			args = append(args, "-H", name+":"+value)
		}
	}
	cmd := pqd.Command(t, d.tool, append(args, "--", step.Subject, step.Body)...)
	cmd.Env = d.env
	out, err := cmd.CombinedOutput()
	return readNats(step.Do, string(out), err)
}

var (
	natsStamp  = regexp.MustCompile(`(?m)^\d\d:\d\d:\d\d `)
	natsStored = regexp.MustCompile(`Stored in Stream: (\S+) Sequence: (\d+)( Duplicate: true)?`)
	natsError  = regexp.MustCompile(`(?m)^nats: error: (.*?)(?: \((\d+)\))?$`)
)

// readNats reads what the nats command prints.
func readNats(what, out string, err error) (answers []cases.Answer) {
	if found := natsError.FindStringSubmatch(out); found != nil {
		a := cases.Answer{Error: "other", Text: found[1]}
		switch {
		case found[2] != "":
			a.Error = "refused"
			a.ErrCode, _ = strconv.Atoi(found[2])
		case strings.Contains(found[1], "timeout"):
			a.Error = "timeout"
		}
		return []cases.Answer{a}
	}
	if err != nil {
		return []cases.Answer{{Error: "other", Text: fmt.Sprint(err, " ", out)}}
	}
	if found := natsStored.FindStringSubmatch(out); found != nil {
		seq, _ := strconv.ParseUint(found[2], 10, 64)
		return []cases.Answer{{Stored: &cases.Stored{Stream: found[1], Seq: seq, Duplicate: found[3] != ""}}}
	}
	if what == "send" {
		return nil
	}
	parts := natsStamp.Split(out, -1)
	for i := 0; i < len(parts); i++ {
		switch {
		case strings.HasPrefix(parts[i], "No responders"):
			answers = append(answers, cases.Answer{Error: "no responders"})
		case strings.HasPrefix(parts[i], "Received"):
			answers = append(answers, cases.Answer{Headers: make(nats.Header)})
		}
		if len(answers) == 0 {
			continue
		}
		a := &answers[len(answers)-1]
		head, body, _ := strings.Cut(parts[i], "\n")
		if name, value, is := strings.Cut(head, ": "); is {
			a.Headers.Add(name, value)
			if name == "PQ-Ack" {
				a.Reply = value // the command shows no reply subject
			}
		}
		if body = strings.TrimRight(body, "\n"); body != "" && body != "nil body" {
			a.Body = body
		}
	}
	return answers
}
