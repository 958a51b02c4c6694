package main

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/testkit/vt"
	"github.com/pqbridge/pqbridge/testenv"
)

// Without a terminal --watch prints again and again.
func TestWatchPrints(t *testing.T) {
	t.Parallel()
	w := newTerminal(t)
	w.pq(t, "push", "jobs", "x")
	for _, args := range [][]string{{"ls", "--watch=1ms"}, {"info", "jobs", "-w"}, {"info", "--watch=1ms"}, {"ls", "-w", "--json"}} {
		ctx, cancel := context.WithCancel(t.Context())
		out, ended := newWritten(), make(chan int, 1)
		go func() { ended <- run(ctx, args, w.env, strings.NewReader(""), out, out) }()
		word := "jobs"
		if args[0] == "info" && args[1] != "jobs" {
			word = "Uptime"
		}
		out.await(t, word)
		out.await(t, word)
		cancel()
		if code := <-ended; code != 0 {
			t.Errorf("%q: exit code %d", args, code)
		}
	}
	if code, text := pq(t, w.env, "info", "none", "--watch"); code != session.ExitNothing {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// changing is something to look at.
type changing struct {
	mu   sync.Mutex
	text string
	err  error
}

func (c *changing) set(text string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text, c.err = text, err
}

func (c *changing) look(context.Context) (string, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text, c.err
}

// In a terminal it stays in one place, and says since when it shows something old.
func TestWatchOnTheScreen(t *testing.T) {
	t.Parallel()
	in, keys := io.Pipe()
	terminal := vt.NewWide(70, 6)
	c := &changing{text: "one\n\x1b[31mtwo\n"}
	s := session.New(t.Context(), nil, in, terminal, io.Discard)
	ended := make(chan error, 1)
	go func() {
		ended <- watchScreen(s, &session.Tty{
			In: in, Out: terminal, Resized: make(chan os.Signal, 1), Size: func() (int, int) { return 70, 6 },
			Raw: func() (func() error, error) { return func() error { return nil }, nil },
		}, time.Millisecond, c.look)
	}()
	sees(t, terminal, "one", `\x1b[31mtwo`, "q: quit")
	c.set("1\n2\n3\n4\n5\n6\n", nil)
	sees(t, terminal, "\n1\n2\n3\n… 3 more lines")
	c.set("", errors.New("no answer"))
	sees(t, terminal, "disconnected since ", "no answer; numbers from ", "\n1\n2")
	c.set("fine", nil)
	sees(t, terminal, "q: quit", "fine")
	if _, err := io.WriteString(keys, "xq"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if terminal.Mode("1049") || terminal.Err() != nil {
		t.Errorf("the terminal is not as it was: %v", terminal.Err())
	}
	keys.Close()

	c.set("", errors.New("no way"))
	s = session.New(t.Context(), nil, strings.NewReader(""), terminal, io.Discard)
	if err := watchScreen(s, &session.Tty{
		In: &io.PipeReader{}, Out: terminal, Size: func() (int, int) { return 70, 6 },
		Raw: func() (func() error, error) { return nil, errors.New("no terminal") },
	}, time.Second, c.look); err == nil {
		t.Error("no error")
	}
}

// sees waits until a screen shows these texts.
func sees(t *testing.T, terminal *vt.Screen, texts ...string) {
	t.Helper()
	for late := testenv.Late(); ; {
		changed, text, all := terminal.Changed(), terminal.Text(), true
		for _, want := range texts {
			all = all && strings.Contains(text, want)
		}
		if all {
			return
		}
		select {
		case <-changed:
		case <-late:
			t.Fatalf("the screen never showed %q:\n%s\n%v", texts, text, terminal.Err())
		}
	}
}
