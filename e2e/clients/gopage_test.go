package clients_test

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The worker of the page about Go is built in a module of its own, by the commands that stand there and without
// the network, does what is pushed, and ends in order at SIGTERM.
func TestGoPage(t *testing.T) {
	t.Parallel()
	const page = "../../docs/go.md"
	dir := t.TempDir()
	clone, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(clone, filepath.Join(dir, "pqbridge")); err != nil {
		t.Fatal(err)
	}
	var setup, tidy, ask string
	for _, block := range testenv.Blocks(t, page, "sh") {
		switch {
		case strings.Contains(block.Text, "go mod init"):
			setup = block.Text
		case strings.Contains(block.Text, "--wait"):
			ask = block.Text
		case strings.Contains(block.Text, "go mod tidy"):
			tidy = strings.ReplaceAll(block.Text, "go run .", "go build -o worker .")
		}
	}
	source := testenv.Blocks(t, page, "go")[0].Text
	if formatted, err := format.Source([]byte(source)); err != nil || string(formatted) != source {
		t.Errorf("the worker is not gofmt'd: %v", err)
	}
	const address = "nats.DefaultURL"
	if strings.Count(source, address) != 1 {
		t.Fatalf("the worker has no %s", address)
	}
	p := testenv.Daemon(t)
	pqd.Write(t, filepath.Join(dir, "main.go"), strings.ReplaceAll(source, address, `"`+p.URL+`"`))
	build := pqd.Compiler(t, "sh", "-e", "-c", setup+"mv ../main.go .\n"+tidy)
	build.Dir, build.Env = dir, append(os.Environ(), "GOPROXY=off", "GOSUMDB=off", "GOWORK=off")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}

	nc := p.Connect(t)
	pqd.Push(t, nc, "jobs", 5, "read the news")
	worker := p.Command(t, filepath.Join(dir, "worker", "worker"))
	lines := startWorker(t, worker)
	if line, want := <-lines, "read the news, priority 5"; line != want {
		t.Errorf("the worker printed %q, expected %q", line, want)
	}
	asks := pqd.Command(t, "sh", "-e", "-c", `pq() { "$PQ" --server "$SERVER" --timeout 1m "$@"; }`+"\n"+ask)
	asks.Env = append(os.Environ(), "PQ="+testenv.Build(t, "cmd/pq"), "SERVER="+p.URL)
	said, err := asks.Output()
	if line, want := <-lines, "put out the fire, priority 0"; line != want || !strings.HasSuffix(string(said), "\n\ndone: put out the fire\n") || err != nil {
		t.Errorf("the worker printed %q, and its caller got %q, %v", line, said, err)
	}
	if err := worker.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		t.Errorf("the worker also printed %s", line)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v after SIGTERM", err)
	}
	if left := queueInfo(t, nc, "jobs"); left != (counts{}) {
		t.Errorf("the worker left %+v", left)
	}
	p.Stop(t)
}
