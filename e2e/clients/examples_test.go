package clients_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/e2e/internal/nodejs"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/testenv"
)

// The examples do what their first lines promise.

const examples = "../../examples"

func TestGoWorker(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	testWorker(t, p, p.Command(t, testenv.Build(t, "examples/worker"), "jobs"), os.Interrupt)
}

func TestNodeWorker(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	script, err := os.ReadFile(filepath.Join(examples, "nodejs/worker.mjs"))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(node.Dir(t), "worker.mjs") // beside the packages
	pqd.Write(t, path, string(script))
	p := testenv.Daemon(t)
	testWorker(t, p, p.Command(t, node.Path, path, "jobs"), os.Interrupt)
}

// The worker for a container says that it takes jobs, and stops on SIGTERM.
func TestNodeContainer(t *testing.T) {
	t.Parallel()
	node := nodejs.Need(t)
	path := filepath.Join(packed(t, node), "container.mjs")
	pqd.Write(t, path, pqd.Read(t, filepath.Join(examples, "nodejs/container.mjs")))
	p := testenv.Daemon(t)
	worker, port := p.Command(t, node.Path, path), freePort(t)
	worker.Env = append(worker.Environ(), "HEALTH_PORT="+port)
	testWorker(t, p, worker, syscall.SIGTERM, func() {
		for _, asked := range []string{"/healthz", "/readyz"} {
			answer, err := http.Get("http://127.0.0.1:" + port + asked)
			if err != nil {
				t.Fatal(err)
			}
			if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
				t.Errorf("%s answers %d: %v", asked, answer.StatusCode, err)
			}
		}
	})
}

// testWorker lets a worker do two jobs and give up a third, looks at it while it waits for more, and stops it.
func testWorker(t *testing.T, p *testenv.Process, worker *exec.Cmd, stop os.Signal, look ...func()) {
	t.Helper()
	nc := p.Connect(t)
	deaths, err := nc.SubscribeSync("pq.jobs.event.dead")
	if err != nil {
		t.Fatal(err)
	}
	for i, job := range []string{"resize cat.png", "resize dog.png", "nonsense"} {
		pqd.Push(t, nc, "jobs", i+1, job)
	}
	lines := startWorker(t, worker)
	done := []string{<-lines, <-lines}
	slices.Sort(done)
	if want := []string{"resize cat.png: done, priority 1", "resize dog.png: done, priority 2"}; !slices.Equal(done, want) {
		t.Errorf("the worker printed %q, expected %q", done, want)
	}
	if _, err := deaths.NextMsg(testenv.Patience()); err != nil {
		t.Errorf("nonsense was not given up: %v", err)
	}
	for _, look := range look {
		look()
	}
	if err := worker.Process.Signal(stop); err != nil {
		t.Fatal(err)
	}
	for line := range lines {
		t.Errorf("the worker also printed %s", line)
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v after an interrupt", err)
	}
	if info := queueInfo(t, nc, "jobs"); info.Ready+info.Leased+info.Delayed != 0 {
		t.Errorf("the worker left %+v", info)
	}
	p.Stop(t)
}

func TestShellWorker(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	script, err := filepath.Abs(filepath.Join(examples, "shell/worker.sh"))
	if err != nil {
		t.Fatal(err)
	}
	// One after the other: when the worker begins the last one, the others are settled.
	for i, job := range []string{"resize cat.png", "fail", "the end"} {
		pqd.Push(t, nc, "jobs", i+1, job)
	}
	worker := p.Command(t, script, "jobs", "sh", "-c", `read -r job; test "$job" != fail && echo "$job: done"`)
	lines := startWorker(t, worker)
	if first, second := <-lines, <-lines; first != "resize cat.png: done" || second != "the end: done" {
		t.Errorf("the worker printed %q and %q", first, second)
	}
	if info := queueInfo(t, nc, "jobs"); info.Delayed != 1 || info.Ready+info.Leased > 1 {
		t.Errorf("expected the job that failed to be delayed and the first one to be gone, found %+v", info)
	}
	// To the worker and its children, as Ctrl-C does. But the test may run with that
	// signal ignored, and then no shell can restore it.
	if err := syscall.Kill(-worker.Process.Pid, syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	for range lines {
	}
	if err := worker.Wait(); err != nil {
		t.Errorf("the worker ended with %v after an interrupt", err)
	}
	p.Stop(t)
}

// A program that a test leaves running has ended when the test has: what it prints then would end
// all tests.
func TestProgramsEndWithTheirTest(t *testing.T) {
	t.Parallel()
	var program *exec.Cmd
	t.Run("test", func(t *testing.T) {
		program = new(testenv.Process).Command(t, "sh", "-c", "while :; do echo more >&2; done")
		program.Stderr = t.Output()
		if err := program.Start(); err != nil {
			t.Fatal(err)
		}
	})
	if program.ProcessState == nil {
		t.Error("the program may still run")
	}
}

// startWorker starts a worker and returns its output, line by line.
func startWorker(t *testing.T, worker *exec.Cmd) <-chan string {
	t.Helper()
	output, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	worker.Stderr = t.Output()
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(testenv.Patience(), func() { _ = worker.Cancel() })
	lines := make(chan string, 16)
	go func() {
		defer close(lines)
		defer late.Stop()
		for scanner := bufio.NewScanner(output); scanner.Scan(); {
			lines <- scanner.Text()
		}
	}()
	return lines
}

type counts struct{ Ready, Leased, Delayed int }

func queueInfo(t *testing.T, nc *nats.Conn, queue string) (info counts) {
	t.Helper()
	reply, err := nc.Request("pq."+queue+".info", nil, testenv.Patience())
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(reply.Data, &info); err != nil {
		t.Fatal(err)
	}
	return info
}
