package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/testenv"
)

// until waits until a condition holds for the queue jobs.
func (w *terminal) until(t *testing.T, is func(*client.Info) bool) *client.Queue {
	t.Helper()
	c, err := client.New(w.nc)
	if err != nil {
		t.Fatal(err)
	}
	q := c.Queue("jobs")
	for {
		info, err := q.Info(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if is(info) {
			return q
		}
	}
}

// begin starts a command. It runs until interrupt is called, and wait returns its result.
func (w *terminal) begin(t *testing.T, args ...string) (interrupt func(), wait func() (int, string)) {
	return w.beginWith(t, strings.NewReader(""), args...)
}

// beginWith is begin with this standard input.
func (w *terminal) beginWith(t *testing.T, stdin io.Reader, args ...string) (interrupt func(), wait func() (int, string)) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Most)
	var out together
	ended := make(chan int)
	go func() { ended <- run(ctx, args, w.env, stdin, &out, &out) }()
	return cancel, func() (int, string) { return <-ended, out.String() }
}

// With --timeout a command that otherwise retries ends in time: without responders, and
// while the store is away.
func TestTimeoutOfPatientCommands(t *testing.T) {
	t.Parallel()
	server := testenv.NATS(t)
	nc := server.Connect(t)
	away := func(m *nats.Msg) {
		_ = m.RespondMsg(&nats.Msg{Header: nats.Header{"Nats-Service-Error": {"away"}, "Nats-Service-Error-Code": {"503"}, "Status": {"503"}}})
	}
	if _, err := nc.Subscribe("away.>", away); err != nil {
		t.Fatal(err)
	}
	if _, err := nc.Subscribe("silent.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + server.URL()}
	for _, prefix := range []string{"nobody", "away", "silent"} {
		// Without the test's deadline, which would count instead.
		var out bytes.Buffer
		if code := run(t.Context(), []string{"--prefix", prefix, "export", "jobs", "--timeout", "300ms"}, env, strings.NewReader(""), &out, &out); code == session.ExitOK || code == session.ExitInterrupted {
			t.Errorf("prefix %s: exit code %d, expected a failure: %s", prefix, code, &out)
		}
	}
}

func (w *terminal) pq(t *testing.T, args ...string) string {
	t.Helper()
	code, text := pq(t, w.env, args...)
	if code != 0 {
		t.Fatalf("pq %s: exit code %d: %s", strings.Join(args, " "), code, text)
	}
	return text
}

// Ctrl-C ends a waiting pop, with the code that shells expect. It takes nothing that is pushed later.
func TestInterruptedPop(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "config", "jobs", "lease=0s")
	interrupt, wait := w.begin(t, "pop", "jobs", "--wait", "1h")
	w.until(t, func(i *client.Info) bool { return i.Waiting == 1 })
	interrupt()
	if code, text := wait(); code != session.ExitInterrupted || text != "" {
		t.Errorf("exit code %d: %s", code, text)
	}
	w.pq(t, "push", "jobs", "x")
	w.until(t, func(i *client.Info) bool { return i.Ready == 1 && i.Leased == 0 })
}

// Ctrl-C ends a command that reads lines. The lines before are pushed.
func TestInterruptedInput(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"push", "jobs", "-"}, {"push", "jobs", "--file", "-"}, {"import", "jobs"}} {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			w := newTerminal(t)
			w.pq(t, "config", "jobs", "lease=1h")
			stdin, typed := io.Pipe()
			interrupt, wait := w.beginWith(t, stdin, args...)
			if _, err := io.WriteString(typed, "{\"payload\": \"x\"}\n"); err != nil {
				t.Fatal(err)
			}
			if args[0] == "push" && args[2] == "-" {
				w.until(t, func(i *client.Info) bool { return i.Ready == 1 })
			}
			interrupt()
			code, text := wait()
			if code != session.ExitInterrupted || strings.Contains(text, "pq:") {
				t.Errorf("exit code %d: %s", code, text)
			}
		})
	}
}

// fifo makes a file whose readers wait for a writer and whose writers wait for a reader.
func (w *terminal) fifo(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ctrl-C waits for the program that runs for an item.
func TestInterruptedConsume(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	started, gate := w.fifo(t, "started"), w.fifo(t, "gate")
	w.pq(t, "push", "jobs", "x")
	interrupt, wait := w.begin(t, "consume", "jobs", "sh", "-c", `echo > "$HOME/started"; read line < "$HOME/gate"; echo $line`)
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if err := os.WriteFile(gate, []byte("done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := wait(); code != 0 || text != "done\n1 item handled, 0 failures\n" {
		t.Errorf("exit code %d: %q", code, text)
	}
	w.until(t, func(i *client.Info) bool { return i.Ready+i.Leased+i.Delayed == 0 })
}

// With --grace the program is asked to stop, and its item returns.
func TestInterruptedConsumeWithGrace(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	started := w.fifo(t, "started")
	w.pq(t, "push", "jobs", "x")
	interrupt, wait := w.begin(t, "consume", "jobs", "--grace", "1ms", "--", "sh", "-c", `echo > "$HOME/started"; exec sleep 60`)
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if code, text := wait(); code != 0 || !strings.Contains(text, "0 items handled, 1 failure") {
		t.Errorf("exit code %d: %s", code, text)
	}
	w.attempts(t, "back stopped")
}

// attempts waits until the item of the queue jobs is ready, and checks how its leases have ended.
func (w *terminal) attempts(t *testing.T, want ...string) {
	t.Helper()
	q := w.until(t, func(i *client.Info) bool { return i.Ready == 1 && i.Leased == 0 })
	item, err := q.Peek(t.Context(), client.Min)
	if err != nil {
		t.Fatal(err)
	}
	if item, err = q.Get(t.Context(), item.ID, client.WithAttempts()); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, a := range item.LastAttempts {
		all = append(all, strings.TrimSpace(string(a.Outcome)+" "+a.Reason))
	}
	if !slices.Equal(all, want) {
		t.Errorf("its leases ended by %q, expected %q", all, want)
	}
}

// A program that others kill has failed. One that pq ends has not, whatever it exits with. What pq says
// nothing about, because it is killed itself, is an interruption.
func TestKilledChild(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "push", "jobs", "x")
	if code, text := pq(t, w.env, "consume", "jobs", "--count", "1", "--", "sh", "-c", "kill -KILL $$"); code != 0 || !strings.Contains(text, "1 failure") {
		t.Errorf("exit code %d: %s", code, text)
	}
	w.attempts(t, "nak sh: signal: killed")

	started := w.fifo(t, "started")
	interrupt, wait := w.begin(t, "consume", "jobs", "--grace", "1ms", "--dead-exit", "7", "--", "sh", "-c", `trap "exit 7" TERM; echo > "$HOME/started"; while true; do sleep 0.05; done`)
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	interrupt()
	if code, text := wait(); code != 0 {
		t.Errorf("exit code %d: %s", code, text)
	}
	w.attempts(t, "nak sh: signal: killed", "back stopped")

	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	gate := w.fifo(t, "gate")
	cmd := exec.CommandContext(t.Context(), self, "consume", "jobs", "--lease", "2s", "--", "sh", "-c", `echo > "$HOME/started"; read line < "$HOME/gate"`)
	cmd.Env = append(w.env, asPQ+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.ReadFile(started); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()                                         // it was killed
	if err := os.WriteFile(gate, nil, 0o600); err != nil { // ends the program
		t.Fatal(err)
	}
	w.attempts(t, "nak sh: signal: killed", "back stopped", "expired")
}

// A second Ctrl-C ends the programs that run for items, and their children.
func TestSecondInterrupt(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	alive := w.fifo(t, "alive")
	w.pq(t, "push", "jobs", "x")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self, "consume", "jobs", "sh", "-c", `trap "" INT TERM; (echo; exec sleep 600) > "$HOME/alive"`)
	cmd.Env = append(w.env, asPQ+"=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	opened := make(chan *os.File, 1)
	go func() {
		file, err := os.Open(alive) // waits for the program that runs for the item
		if err != nil {
			t.Error(err)
		}
		opened <- file
	}()
	var file *os.File
	select {
	case file = <-opened:
	case err := <-ended:
		t.Fatalf("pq ended: %v", err)
	}
	defer file.Close()
	if _, err := io.ReadFull(file, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	// Simultaneous signals count as one.
	for interrupts := time.NewTicker(50 * time.Millisecond); ; {
		if err := cmd.Process.Signal(os.Interrupt); err != nil && !errors.Is(err, os.ErrProcessDone) {
			t.Fatal(err)
		}
		select {
		case <-ended:
			interrupts.Stop()
		case <-interrupts.C:
			continue
		}
		break
	}
	if code := cmd.ProcessState.ExitCode(); code != session.ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
	if _, err := file.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("reading what the program holds open: %v, expected its end", err)
	}
}

// top continues after the NATS server and the bridge were away.
func TestTopSurvivesRestart(t *testing.T) {
	t.Parallel()
	for _, flag := range []string{"--json", "--sort=name"} {
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			b := testenv.Bridge(t, bridge.Options{})
			w := &terminal{nc: b.NATS.Connect(t), env: []string{"HOME=" + t.TempDir(), "NATS_URL=" + b.NATS.URL(), "NATS_TIMEOUT=5s"}}
			w.pq(t, "push", "jobs", "x", "--timeout", testenv.Patience().String())
			out := newWritten()
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, []string{"top", "--interval", "50ms", flag}, w.env, strings.NewReader(""), out, out)
			}()
			out.await(t, "jobs")
			b.NATS.Shutdown()
			out.await(t, "the NATS server is away")
			b.NATS.Restart(t)
			out.await(t, "jobs")
			cancel()
			if code := <-ended; code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

func TestInterruptedTop(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "push", "jobs", "x")
	interrupt, wait := w.begin(t, "top", "--interval", "1ms")
	w.until(t, func(i *client.Info) bool { return i.Ready == 1 })
	interrupt()
	if code, text := wait(); code != 0 || !strings.Contains(text, "QUEUE") && text != "" {
		t.Errorf("exit code %d: %s", code, text)
	}
}
