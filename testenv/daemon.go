package testenv

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime/pprof"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/internal/testkit/patience"
)

// Process is pqd as a separate process.
type Process struct {
	URL  string // of NATS
	HTTP string // of /healthz and its neighbours
	Dir  string // of the embedded store

	work    string // where the process runs
	env     []string
	program string // "": pqd of this repository
	cmd     *exec.Cmd
	exited  chan struct{}
	log     journal
}

// Daemon starts pqd and waits until it is ready. Unless env has other settings, pqd listens
// on free ports and has a new store. At the end of the test Daemon kills the process if it
// still runs, and checks its store.
func Daemon(t testing.TB, env ...string) *Process {
	t.Helper()
	p := Launch(t, env...)
	p.AwaitReady(t)
	return p
}

// Launch is Daemon without the wait.
func Launch(t testing.TB, env ...string) *Process {
	t.Helper()
	p := prepare(t, env)
	p.launch(t)
	return p
}

// prepare returns a process with these settings that is not started yet.
func prepare(t testing.TB, env []string) *Process {
	t.Helper()
	p := newProcess(t)
	if !sets(env, "NATS_URL") {
		p.env = append(p.env, "PQ_LISTEN=127.0.0.1:0")
	}
	p.env = append(p.env, env...)
	return p
}

// newProcess returns a process that is not started yet. It is finished when the test ends.
func newProcess(t testing.TB) *Process {
	t.Helper()
	work := t.TempDir()
	p := &Process{Dir: filepath.Join(work, "data"), work: work}
	p.env = []string{"PQ_STORE=local:" + p.Dir, "PQ_HTTP=127.0.0.1:0", "PQ_LOG=json"}
	t.Cleanup(func() { p.finish(t) })
	return p
}

// Start starts a process again that was stopped, with the same store and the same addresses, so that clients find
// it. It tries again while another program has one of the addresses: the system gives free ports to outgoing
// connections.
func (p *Process) Start(t testing.TB) {
	t.Helper()
	late := BeginWait()
	for p.launch(t); !p.Ready(t); p.launch(t) {
		if !p.hasLogged("address already in use") || late.Over() {
			p.endedEarly(t)
		}
	}
}

// hasLogged reports whether the process that was started last has logged a text.
func (p *Process) hasLogged(text string) bool {
	lines, _ := p.log.from(p.log.start())
	return slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) })
}

func (p *Process) endedEarly(t testing.TB) {
	t.Helper()
	t.Fatalf("pqd ended before it was ready, with exit code %d", p.cmd.ProcessState.ExitCode())
}

func (p *Process) launch(t testing.TB) {
	t.Helper()
	cmd := command(t, p.program, p.env)
	cmd.Dir = p.work
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatalf("start pqd: %v", err)
	}
	exited := make(chan struct{})
	p.cmd, p.exited = cmd, exited
	p.begins()
	p.log.begin()
	go func() {
		defer close(exited)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			p.log.add(lines.Text())
		}
		_ = cmd.Wait() // cmd.ProcessState has the result
	}()
}

// AwaitReady waits until the process logs that it is ready.
func (p *Process) AwaitReady(t testing.TB) {
	t.Helper()
	if !p.Ready(t) {
		p.endedEarly(t)
	}
}

// Begin is Start without the wait.
func (p *Process) Begin(t testing.TB) {
	t.Helper()
	p.launch(t)
}

// Ready waits until the process is ready or has ended, and reports which.
func (p *Process) Ready(t testing.TB) bool {
	t.Helper()
	var ready struct {
		Message string `json:"msg"`
		NATS    string `json:"nats"`
		HTTP    string `json:"http"`
	}
	if !p.logs(t, "is ready", func(line string) bool {
		return json.Unmarshal([]byte(line), &ready) == nil && ready.Message == "ready"
	}) {
		return false
	}
	p.URL, p.HTTP = ready.NATS, ready.HTTP
	if !sets(p.env, "NATS_URL") && !sets(p.env, "PQ_NATS_CONFIG") {
		p.env = append(p.env, "PQ_LISTEN="+strings.TrimPrefix(p.URL, "nats://"))
	}
	_, where, _ := strings.Cut(p.HTTP, "://")
	p.env = append(p.env, "PQ_HTTP="+where)
	return true
}

// AwaitLog waits for a line with this text from the process that runs now.
func (p *Process) AwaitLog(t testing.TB, text string) {
	t.Helper()
	if !p.logs(t, "has logged "+text, func(line string) bool { return strings.Contains(line, text) }) {
		t.Fatalf("pqd ended before it has logged %q, with exit code %d", text, p.cmd.ProcessState.ExitCode())
	}
}

// logs waits for a line of the running process. It returns false if the process ends
// without that line.
func (p *Process) logs(t testing.TB, what string, match func(line string) bool) bool {
	t.Helper()
	late := Late()
	for next := p.log.start(); ; {
		// This order matters: the last line arrives before the process has ended.
		ended := isClosed(p.exited)
		lines, more := p.log.from(next)
		if slices.ContainsFunc(lines, match) {
			return true
		}
		if ended {
			return false
		}
		next += len(lines)
		select {
		case <-more:
		case <-p.exited:
		case <-late:
			patience.Fail(t, "after %s it was not true yet that pqd %s", Patience(), what)
		}
	}
}

// RunBeside runs pqd with arguments, with the settings of the process and beside it.
func (p *Process) RunBeside(t testing.TB, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	return Run(t, p.env, args...)
}

// Connect returns a connection that is closed when the test ends.
func (p *Process) Connect(t testing.TB, options ...nats.Option) *nats.Conn {
	t.Helper()
	return connect(t, p.URL, options...)
}

// Kill ends the process without warning.
func (p *Process) Kill(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGKILL)
	p.wait(t)
}

// Stop stops the process, and fails the test unless the exit code is 0. If the stop takes
// too long, pqd itself ends with another code.
func (p *Process) Stop(t testing.TB) {
	t.Helper()
	p.Terminate(t)
	p.wait(t)
	if code := p.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("pqd ended with exit code %d after SIGTERM, expected 0", code)
	}
}

// Pause suspends the process until Resume.
func (p *Process) Pause(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGSTOP)
}

// Resume continues a paused process.
func (p *Process) Resume(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGCONT)
}

// Terminate sends SIGTERM, unless the process has ended.
func (p *Process) Terminate(t testing.TB) {
	t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		t.Fatalf("send SIGTERM to pqd: %v", err)
	}
}

// HangUp sends SIGHUP.
func (p *Process) HangUp(t testing.TB) {
	t.Helper()
	p.signal(t, syscall.SIGHUP)
}

// AwaitEnd waits for a process that ends, and returns its exit code.
func (p *Process) AwaitEnd(t testing.TB) int {
	t.Helper()
	p.wait(t)
	return p.cmd.ProcessState.ExitCode()
}

// PID is the id of the process that runs now.
func (p *Process) PID() int { return p.cmd.Process.Pid }

// Running reports whether the process has begun and not ended.
func (p *Process) Running() bool { return p.exited != nil && !isClosed(p.exited) }

// Exited is closed when the process that runs now has ended.
func (p *Process) Exited() <-chan struct{} { return p.exited }

// Log is the log of the process and of its earlier runs.
func (p *Process) Log() string {
	lines, _ := p.log.from(0)
	return strings.Join(lines, "\n")
}

func (p *Process) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	if err := p.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("send %s to pqd: %v", signal, err)
	}
}

func (p *Process) wait(t testing.TB) {
	t.Helper()
	select {
	case <-p.exited:
	case <-Late():
		patience.Fail(t, "pqd had not ended after %s", Patience())
	}
}

// finish kills the process if it runs, shows its log if the test failed, and checks the
// store.
func (p *Process) finish(t testing.TB) {
	defer p.finished()
	if t.Failed() && p.Running() {
		run{p.cmd, p.exited}.quit()
	}
	if p.exited != nil {
		_ = p.cmd.Process.Kill() // it may have ended already
		<-p.exited
	}
	if t.Failed() {
		t.Logf("pqd logged:\n%s", p.Log())
	}
	CheckDir(t, p.Dir)
}

// timeout kills cmd if it runs too long, unless stop is called before.
func timeout(cmd *exec.Cmd) (stop func() bool) {
	return time.AfterFunc(Most, func() { _ = cmd.Process.Kill() }).Stop
}

// sets reports whether env sets a variable to something.
func sets(env []string, name string) bool {
	return slices.ContainsFunc(env, func(entry string) bool {
		key, value, _ := strings.Cut(entry, "=")
		return key == name && value != ""
	})
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// journal keeps the lines that a process logs, and wakes tests that wait for more.
type journal struct {
	mu    sync.Mutex
	lines []string
	since int           // where the current run of the process begins
	more  chan struct{} // closed when a line comes
}

// begin notes that the process is about to run.
func (j *journal) begin() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.since = len(j.lines)
}

// start is the number of the first line of the current run.
func (j *journal) start() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.since
}

func (j *journal) add(line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.lines = append(j.lines, line)
	if j.more != nil {
		close(j.more)
		j.more = nil
	}
}

// from returns the lines from a number on, and a channel that is closed when there are more.
func (j *journal) from(next int) ([]string, <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.more == nil {
		j.more = make(chan struct{})
	}
	return slices.Clone(j.lines[next:]), j.more
}

// afterQuit is how long a pqd may take to print its goroutines and end.
const afterQuit = 5 * time.Second

// run is a process that has begun. Its last lines are in the log of its Process.
type run struct {
	cmd    *exec.Cmd
	exited chan struct{}
}

// alive are the processes that tests have begun and not finished.
var alive struct {
	sync.Mutex
	processes map[*Process]run
}

// begins notes that a process runs; finished notes that its test needs it no more.
func (p *Process) begins() {
	alive.Lock()
	defer alive.Unlock()
	if alive.processes == nil {
		alive.processes = make(map[*Process]run)
	}
	alive.processes[p] = run{p.cmd, p.exited}
}

func (p *Process) finished() {
	alive.Lock()
	defer alive.Unlock()
	delete(alive.processes, p)
}

// showOnQuit makes the program answer SIGQUIT with the log of each pqd, which ends with its goroutines, and with
// its own goroutines. The runner of the tests sends it to a program that does not end.
func showOnQuit() {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	go func() {
		<-quit
		alive.Lock()
		processes := maps.Clone(alive.processes)
		alive.Unlock()
		for p, r := range processes {
			r.quit()
			fmt.Printf("pqd logged:\n%s\n", p.Log())
		}
		fmt.Println("SIGQUIT: all goroutines of the tests")
		_ = pprof.Lookup("goroutine").WriteTo(os.Stdout, 2) // there is nobody left to tell
		os.Exit(2)
	}()
}

// quit ends a process with its goroutines in its log: they may show why a test has waited in vain.
func (r run) quit() {
	_ = r.cmd.Process.Signal(syscall.SIGQUIT) // it may have ended already
	_ = r.cmd.Process.Signal(syscall.SIGCONT) // a test may have paused it
	select {
	case <-r.exited:
	case <-time.After(Times(afterQuit)):
	}
}
