package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/testenv"
)

// until waits until something is true of the queue jobs.
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

// begin starts a command. It goes on until interrupt is called, and wait returns
// what came of it.
func (w *terminal) begin(t *testing.T, args ...string) (interrupt func(), wait func() (int, string)) {
	ctx, cancel := context.WithTimeout(t.Context(), testenv.Patience)
	var out bytes.Buffer
	ended := make(chan int)
	go func() { ended <- run(ctx, args, w.env, strings.NewReader(""), &out, &out) }()
	return cancel, func() (int, string) { return <-ended, out.String() }
}

func (w *terminal) pq(t *testing.T, args ...string) string {
	t.Helper()
	code, text := pq(t, w.env, args...)
	if code != 0 {
		t.Fatalf("pq %s: exit code %d: %s", strings.Join(args, " "), code, text)
	}
	return text
}

// Ctrl-C ends what waits, with the code that shells expect.
func TestInterruptedPop(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "config", "jobs", "lease=1h")
	interrupt, wait := w.begin(t, "pop", "jobs", "--wait", "1h")
	w.until(t, func(i *client.Info) bool { return i.Waiting == 1 })
	interrupt()
	if code, text := wait(); code != exitInterrupted || text != "" {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// fifo makes a file that whoever reads waits for whoever writes, and the other
// way round.
func (w *terminal) fifo(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(w.dir, name)
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Ctrl-C lets the program end that runs for an item.
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

// With --grace a program is asked to stop, and its item is there for others.
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
	w.until(t, func(i *client.Info) bool { return i.Ready == 1 })
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
