package top

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/cmd/pq/internal/session"
	"github.com/pqbridge/pqbridge/internal/testkit/vt"
	"github.com/pqbridge/pqbridge/testenv"
)

// topUser is somebody who sits before top, which runs beside a bridge.
type topUser struct {
	t        *testing.T
	bridge   *testenv.Bridged
	keys     *io.PipeWriter
	terminal *vt.Screen
	restored bool
	ended    chan error
}

func startTop(t *testing.T, w *watching, push ...string) *topUser {
	t.Helper()
	b := testenv.Bridge(t, bridge.Options{})
	in, keys := io.Pipe()
	u := &topUser{
		terminal: vt.NewWide(100, 20), t: t, bridge: b, keys: keys, ended: make(chan error, 1),
	}
	env := []string{"HOME=" + t.TempDir(), "NATS_URL=" + b.NATS.URL(), "NATS_TIMEOUT=" + testenv.Patience().String()}
	for _, queue := range push {
		if answer, err := b.NATS.Connect(t).Request("pq."+queue+".push", []byte("x"), testenv.Patience()); err != nil || !testenv.IsAck(answer) {
			t.Fatal(answer, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := session.New(ctx, env, in, u.terminal, io.Discard)
	var err error
	if s.Global, err = session.GlobalsFrom(s.Env); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); keys.Close() })
	go func() {
		defer s.Close()
		u.ended <- w.full(s, &session.Tty{
			In: in, Out: u.terminal, Resized: make(chan os.Signal, 1),
			Size: func() (int, int) { return 100, 20 },
			Raw:  func() (func() error, error) { return func() error { u.restored = true; return nil }, nil },
		})
	}()
	return u
}

func (u *topUser) types(keys string) {
	u.t.Helper()
	if _, err := io.WriteString(u.keys, keys); err != nil {
		u.t.Fatal(err)
	}
}

// sees waits until the screen is as wanted.
func (u *topUser) sees(what string, is func(text string) bool) {
	u.t.Helper()
	for late := testenv.Late(); ; {
		changed := u.terminal.Changed()
		if err := u.terminal.Err(); err != nil {
			u.t.Fatal(err)
		}
		if is(u.terminal.Text()) {
			return
		}
		select {
		case <-changed:
		case err := <-u.ended:
			u.t.Fatalf("it ended: %v", err)
		case <-late:
			u.t.Fatalf("the screen never showed %s:\n%s", what, u.terminal.Text())
		}
	}
}

func (u *topUser) seesText(text string) {
	u.t.Helper()
	u.sees(text, func(screen string) bool { return strings.Contains(screen, text) })
}

// leaves waits for the end, after which the terminal is as it was.
func (u *topUser) leaves() error {
	u.t.Helper()
	select {
	case err := <-u.ended:
		if u.terminal.Mode("1049") || !u.terminal.Mode("25") || !u.restored {
			u.t.Error("the terminal is not as it was")
		}
		return err
	case <-testenv.Late():
		u.t.Fatal("it does not end")
		return nil
	}
}

func TestTopOnTheScreen(t *testing.T) {
	t.Parallel()
	u := startTop(t, &watching{interval: 20 * time.Millisecond, sort: "name"}, "jobs", "jobs", "mail")
	u.seesText("2 queues by name")
	u.types("p")
	u.seesText("pause jobs?")
	u.types("y")
	u.seesText("paused jobs")
	u.sees("that it is paused", func(s string) bool { return strings.Contains(s, "0.0  paused") })
	u.types("py")
	u.seesText("resumed jobs")

	c, err := client.New(u.bridge.NATS.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		i, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		if err := i.Terminate(t.Context(), "no way"); err != nil {
			t.Fatal(err)
		}
	}
	u.seesText("jobs-dead")
	u.types("\r\t\t\t")
	u.seesText("no way")
	u.types("\r")
	u.seesText("Origin: jobs")
	u.types("\x1b")
	u.seesText("[dead 2]")
	u.types("ry")
	u.seesText("requeued 1 item to jobs")
	u.seesText("[dead 1]")
	u.types("Ry")
	u.seesText("no dead letters")
	u.types("\x1b")
	u.seesText("3 queues by name")
	u.types("q")
	if err := u.leaves(); err != nil {
		t.Error(err)
	}
	if info, err := c.Queue("jobs").Info(t.Context()); err != nil || info.Ready != 2 || info.Paused {
		t.Errorf("%+v, %v", info, err)
	}
}

// While the NATS server is away it says so, and goes on by itself afterwards.
func TestTopOnTheScreenSurvivesRestart(t *testing.T) {
	t.Parallel()
	u := startTop(t, &watching{interval: 20 * time.Millisecond, sort: "rate"}, "jobs")
	u.seesText("1 queue by rate  1 ready")
	u.bridge.NATS.Shutdown()
	u.seesText("disconnected since")
	u.seesText("~1")
	u.bridge.NATS.Restart(t)
	u.sees("live numbers", func(s string) bool { return !strings.Contains(s, "disconnected") && !strings.Contains(s, "~") })
	u.types("\x03")
	if err := u.leaves(); err != nil {
		t.Error(err)
	}
}

// It ends with its terminal.
func TestTopWithoutTerminal(t *testing.T) {
	t.Parallel()
	u := startTop(t, &watching{interval: time.Second, sort: "rate"}, "jobs")
	u.seesText("1 queue by rate")
	u.keys.CloseWithError(errors.New("the terminal is gone"))
	if err := u.leaves(); err != nil {
		t.Error(err)
	}
}
