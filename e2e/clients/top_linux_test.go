package clients_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"golang.org/x/sys/unix"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/e2e/internal/pqd"
	"github.com/pqbridge/pqbridge/internal/testkit/vt"
	"github.com/pqbridge/pqbridge/testenv"
)

// pseudoTerminal is a terminal with pq in it.
type pseudoTerminal struct {
	t      *testing.T
	keys   *os.File
	screen *vt.Screen
	cmd    *exec.Cmd
	ended  chan error
}

// openTerminal returns both ends of a terminal.
func openTerminal(t *testing.T) (ours, theirs *os.File) {
	t.Helper()
	ours, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals: %v", err)
	}
	t.Cleanup(func() { ours.Close() })
	number := 0
	onMaster := func(fd uintptr) {
		if err = unix.IoctlSetPointerInt(int(fd), unix.TIOCSPTLCK, 0); err == nil {
			number, err = unix.IoctlGetInt(int(fd), unix.TIOCGPTN)
		}
	}
	raw, rawErr := ours.SyscallConn()
	if rawErr != nil {
		t.Fatal(rawErr)
	}
	if rawErr := raw.Control(onMaster); rawErr != nil || err != nil {
		t.Fatal(rawErr, err)
	}
	theirs, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	return ours, theirs
}

// inTerminal runs pq in a terminal of this size.
func inTerminal(t *testing.T, p *testenv.Process, columns, lines int, env []string, args ...string) *pseudoTerminal {
	t.Helper()
	ours, theirs := openTerminal(t)
	term := &pseudoTerminal{t: t, keys: ours, screen: vt.New(columns, lines), ended: make(chan error, 1)}
	term.setSize(columns, lines)
	term.cmd = pqd.Command(t, testenv.Build(t, "cmd/pq"), args...)
	term.cmd.Env = append([]string{"HOME=" + t.TempDir(), "NATS_URL=" + p.URL, "TERM=xterm-256color", "PATH=" + os.Getenv("PATH")}, env...)
	term.cmd.Stdin, term.cmd.Stdout, term.cmd.Stderr = theirs, theirs, theirs
	term.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := term.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	t.Cleanup(func() { _ = term.cmd.Process.Kill() }) // it may have ended
	go func() {
		_, err := io.Copy(term.screen, ours)
		if errors.Is(err, syscall.EIO) { // how Linux says that nobody has the terminal any more
			err = nil
		}
		term.ended <- errors.Join(err, term.cmd.Wait())
	}()
	return term
}

func (p *pseudoTerminal) setSize(columns, lines int) {
	p.t.Helper()
	raw, err := p.keys.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var failed error
	if err := raw.Control(func(fd uintptr) {
		failed = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(lines), Col: uint16(columns)})
	}); err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
}

func (p *pseudoTerminal) types(keys string) {
	p.t.Helper()
	if _, err := io.WriteString(p.keys, keys); err != nil {
		p.t.Fatal(err)
	}
}

// sees waits until the screen is as wanted.
func (p *pseudoTerminal) sees(what string, is func(text string) bool) {
	p.t.Helper()
	for late := testenv.Late(); ; {
		changed := p.screen.Changed()
		if is(p.screen.Text()) && p.screen.Err() == nil {
			return
		}
		select {
		case <-changed:
		case err := <-p.ended:
			p.t.Fatalf("pq ended: %v, %v\n%s", err, p.screen.Err(), p.screen.Text())
		case <-late:
			p.t.Fatalf("the screen never showed %s:\n%s", what, p.screen.Text())
		}
	}
}

func (p *pseudoTerminal) shows(text string) {
	p.t.Helper()
	p.sees(text, func(screen string) bool { return strings.Contains(screen, text) })
}

// leaves waits for the end of pq, and expects the terminal as it was.
func (p *pseudoTerminal) leaves(code int) {
	p.t.Helper()
	select {
	case <-p.ended:
	case <-testenv.Late():
		p.t.Fatal("pq has not ended")
	}
	if got := p.cmd.ProcessState.ExitCode(); got != code {
		p.t.Errorf("exit code %d, expected %d:\n%s", got, code, p.screen.Text())
	}
	if p.screen.Mode("1049") || !p.screen.Mode("25") || !p.screen.Mode("7") || p.screen.Mode("2004") {
		p.t.Error("the terminal is not as it was")
	}
}

// settings are those of the terminal itself: whether it shows what is typed, and so on.
func (p *pseudoTerminal) settings() unix.Termios {
	p.t.Helper()
	raw, err := p.keys.SyscallConn()
	if err != nil {
		p.t.Fatal(err)
	}
	var found *unix.Termios
	var failed error
	if err := raw.Control(func(fd uintptr) { found, failed = unix.IoctlGetTermios(int(fd), unix.TCGETS) }); err != nil || failed != nil {
		p.t.Fatal(err, failed)
	}
	return *found
}

// pq top in a real terminal: keys, changes, another size, a pqd that restarts below it.
func TestTopInTerminal(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	c, err := client.New(p.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	for queue, n := range map[string]int{"jobs": 3, "mail": 1, "video": 2} {
		for range n {
			if _, err := c.Queue(queue).Push(t.Context(), []byte("x\x1b[31m")); err != nil {
				t.Fatal(err)
			}
		}
	}
	i, err := c.Queue("jobs").Pop(t.Context(), client.Min, client.Lease(time.Hour))
	if err == nil {
		err = i.Terminate(t.Context(), "no way")
	}
	if err != nil {
		t.Fatal(err)
	}

	term := inTerminal(t, p, 80, 16, nil, "top", "--interval", "100ms", "--sort", "ready")
	term.shows("4 queues by ready  6 ready")
	if term.settings().Lflag&(unix.ECHO|unix.ICANON|unix.ISIG) != 0 {
		t.Error("the terminal is not raw")
	}
	term.types("/vi\r")
	term.shows("1 queue beginning with vi")
	term.types("p")
	term.shows("pause video?")
	term.types("y")
	term.shows("0.0  paused")
	if info, err := c.Queue("video").Info(t.Context()); err != nil || !info.Paused {
		t.Errorf("%+v, %v", info, err)
	}
	term.types("\x1b")
	term.shows("4 queues by ready")
	term.types("\x1b[H\r\x1b[C\x1b[C\x1b[C") // Home, Enter, three tabs further
	term.shows("[dead ")
	term.types("\x1b")
	term.types("/jobs\r")
	term.shows("beginning with jobs by ready")
	term.types("\r\x1b[Z")
	term.shows("no way")
	term.types("\r")
	term.shows(`x\x1b[31m`)
	term.types("\x1b")
	term.shows("[dead 1]")

	term.screen.Resize(120, 30)
	term.setSize(120, 30)
	term.sees("all of its new size", func(text string) bool {
		lines := strings.Split(text, "\n")
		return strings.HasPrefix(lines[29], "esc back") && len(lines[0]) == 120
	})

	p.Stop(t)
	term.shows("disconnected since ")
	term.shows("[dead ~1]")
	p.Start(t)
	term.sees("live numbers", func(text string) bool {
		return !strings.Contains(text, "disconnected") && strings.Contains(text, "[dead 1]")
	})
	p.Kill(t)
	term.shows("disconnected since ")
	p.Start(t)
	term.shows("[dead 1]")
	term.types("ry")
	term.shows("requeued 1 item to jobs")
	term.types("q")
	term.leaves(0)
	if settings := term.settings(); settings.Lflag&unix.ECHO == 0 || settings.Lflag&unix.ICANON == 0 {
		t.Error("the terminal stays raw")
	}
}

// A pqd that stands still looks like one that is away. NO_COLOR leaves the colors out, and a
// signal ends top as q does.
func TestTopWithoutColors(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	c, err := client.New(p.Connect(t))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue("jobs-dead").Push(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Queue("jobs").Push(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	term := inTerminal(t, p, 90, 10, []string{"NO_COLOR=1"}, "top", "--interval", "100ms")
	term.shows("2 queues by rate  2 ready")
	p.Pause(t)
	term.shows("disconnected since ")
	term.shows("~1")
	for _, cells := range term.screen.Cells() {
		if at := slices.IndexFunc(cells, func(c vt.Cell) bool { return strings.Contains(c.Style, "3") || strings.Contains(c.Style, "4") }); at >= 0 {
			t.Fatalf("a cell has the style %s", cells[at].Style)
		}
	}
	p.Resume(t)
	term.sees("live numbers", func(text string) bool { return !strings.Contains(text, "~") })
	if err := term.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	term.leaves(0)
}

// inTheTerminal returns what a command of pq writes to a terminal that it does not fill.
func inTheTerminal(t *testing.T, p *testenv.Process, args ...string) string {
	t.Helper()
	ours, theirs := openTerminal(t)
	cmd := p.Command(t, "env", append([]string{"pq"}, args...)...)
	cmd.Stdout = theirs
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	shown, err := io.ReadAll(ours)
	if err != nil && !errors.Is(err, syscall.EIO) { // how Linux says that nobody has the terminal any more
		t.Fatal(err)
	}
	return string(shown)
}

// What others wrote does nothing to the terminal that shows it: no title, no cleared screen. A pipe has it byte for byte.
func TestHostileTextInATerminal(t *testing.T) {
	t.Parallel()
	p := testenv.Daemon(t)
	nc := p.Connect(t)
	payload := "\x1b]0;owned\x07\x1b[2Jtab\there\nand grün \u009b2J"
	pqd.Push(t, nc, "jobs", 1, payload)
	shown := inTheTerminal(t, p, "peek", "jobs")
	if want := `\x1b]0;owned\a\x1b[2Jtab`; !strings.HasPrefix(shown, want) || !strings.Contains(shown, "and grün") {
		t.Errorf("the terminal gets %q, expected %q first", shown, want)
	}
	if out, err := p.Command(t, "env", "pq", "peek", "jobs").Output(); err != nil || string(out) != payload+"\n" {
		t.Errorf("a pipe has %q, %v", out, err)
	}
	for _, args := range [][]string{{"list", "jobs", "--bodies", "--json"}, {"export", "jobs"}} {
		if shown := inTheTerminal(t, p, args...); !strings.Contains(shown, `and grün \u009b2J`) {
			t.Errorf("pq %s: the terminal gets %q", args[0], shown)
		}
		if out, err := p.Command(t, "env", append([]string{"pq"}, args...)...).Output(); err != nil || !strings.Contains(string(out), "and grün \u009b2J") {
			t.Errorf("pq %s: a pipe has %q, %v", args[0], out, err)
		}
	}
	// Somebody who answers in the place of a bridge is a stranger, too.
	for subject, answer := range map[string]string{
		"fake._sys.list": `{"queues":["jobs"]}`, "fake.jobs.info": `{"queue":"jobs","ready":1,"config":{"ties":"\u202e\u009b2J"}}`,
	} {
		if _, err := nc.Subscribe(subject, func(m *nats.Msg) { _ = m.Respond([]byte(answer)) }); err != nil {
			t.Fatal(err)
		}
	}
	for _, command := range [][]string{{"ls"}, {"info", "jobs"}} {
		args := append(command, "--prefix", "fake", "--json")
		if shown := inTheTerminal(t, p, args...); !strings.Contains(shown, `"\u202e\u009b2J"`) {
			t.Errorf("pq %s: the terminal gets %q", args[0], shown)
		}
	}
}
