package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// Every command of a terminal session in the documentation prints what the page shows. A
// page is one session, from its first command to its last, with default settings except
// the ports. docs/pages_test.go checks that other commands say why no test runs them.

func TestReadme(t *testing.T)   { runPage(t, "../../README.md") }
func TestTutorial(t *testing.T) { runPage(t, tutorial) }

const tutorial = "../../docs/tutorial.md"

func TestProtocolInTheTerminal(t *testing.T) {
	t.Parallel()
	for _, page := range protocolPages(t) {
		t.Run(filepath.Base(page), func(t *testing.T) { runPage(t, page) })
	}
}

func TestOtherPages(t *testing.T) {
	t.Parallel()
	elsewhere := append(protocolPages(t), "../../README.md", tutorial, "../../docs/cluster.md", httpPage)
	for _, page := range matching(t, "../../*.md", "../../docs/*.md", "../../docs/*/*.md", "../../examples/*.md", "../../deploy/*.md") {
		if strings.Contains(pqd.Read(t, page), "\n```console\n") && !slices.Contains(elsewhere, page) {
			t.Run(filepath.Base(page), func(t *testing.T) { runPage(t, page) })
		}
	}
}

const httpPage = "../../docs/http.md"

func TestHTTPPage(t *testing.T) {
	t.Parallel()
	runPage(t, httpPage)
}

// The real curl prints what the page shows.
func TestHTTPPageWithCurl(t *testing.T) {
	t.Parallel()
	curl, err := exec.LookPath("curl")
	if err != nil {
		t.Skip("NOT TESTED WITH CURL: there is no curl")
	}
	p := testenv.Daemon(t)
	terminal := p.Terminal(t)
	terminal.UseCurl(curl)
	for _, step := range testenv.Steps(t, httpPage) {
		terminal.Run(t, step)
	}
	terminal.Close(t)
}

// matching are the files that match one of these patterns.
func matching(t *testing.T, patterns ...string) (files []string) {
	t.Helper()
	for _, pattern := range patterns {
		found, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, found...)
	}
	return files
}

// Commands that the test replaces: it has built the programs, and starts pqd as a process
// that it watches.
const (
	buildPrograms = "go build -o bin/ ./cmd/pq ./cmd/pqd"
	startDaemon   = "go run ./cmd/pqd"
	buildAndStart = buildPrograms + " && bin/pqd"
	killDaemon    = "kill -9 $(lsof -t -iTCP:4222 -sTCP:LISTEN)"
)

func runPage(t *testing.T, page string, env ...string) {
	t.Helper()
	p := testenv.Daemon(t, append(append(env, settingsOf(t, page)...), "PQ_STORE=")...)
	running, shown := true, false
	terminal := p.Terminal(t)
	for _, step := range testenv.Steps(t, page) {
		switch step.Command {
		case buildPrograms:
		case startDaemon, buildAndStart:
			if shown && running {
				t.Fatalf("%s: pqd runs already", step.Where)
			}
			if !running {
				p.Start(t)
			}
			running, shown = true, true
			compareReady(t, step.Output, p.Log())
		case killDaemon:
			p.Kill(t)
			running = false
		default:
			terminal.Run(t, step)
		}
	}
	terminal.Close(t)
	p.Stop(t)
}

// settingsOf are those that a page of the protocol asks for.
func settingsOf(t *testing.T, page string) []string {
	t.Helper()
	if filepath.Base(page) != "sources.md" {
		return nil
	}
	return withStreams(t, "")
}

// withStreams are settings of a pqd with streams, whose queue jobs may read one of them. more is what else its
// NATS servers are told.
func withStreams(t *testing.T, more string) []string {
	t.Helper()
	dir := t.TempDir()
	config, remotes := filepath.Join(dir, "nats.conf"), filepath.Join(dir, "remotes.json")
	pqd.Write(t, config, fmt.Sprintf("jetstream { store_dir: %q }\n%s", dir, more))
	pqd.Write(t, remotes, `{"self": {"streams": {"ORDERS": {"read": ["jobs", "copies"]}}, "queues": {"edge7.orders": ["jobs", "linked"]}}}`)
	if err := os.Chmod(remotes, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"PQ_NATS_CONFIG=" + config, "PQ_REMOTES=" + remotes}
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
		t.Errorf("the page shows %d fields of the ready line, pqd logs %v", len(fields), logged)
	}
	for _, field := range fields {
		expected, found := port.ReplaceAllString(field[2], ""), port.ReplaceAllString(logged[field[1]], "")
		if expected != "…" && expected != found {
			t.Errorf("ready line: the page shows %s=%s, pqd logs %s", field[1], expected, found)
		}
	}
}
