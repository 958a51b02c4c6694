package session

import (
	"bufio"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// What others have sent does nothing to a terminal, whichever way it is printed.
func TestPrintsNothingRawToATerminal(t *testing.T) {
	t.Parallel()
	screen, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer screen.Close()
	n, err := unix.IoctlGetInt(int(screen.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(screen.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprint("/dev/pts/", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	s := New(t.Context(), nil, strings.NewReader(""), terminal, terminal)
	const hostile = "\x1b[31m\u009b2J\a"
	lines := bufio.NewReader(screen)
	for name, print := range map[string]func() error{
		"Printf":       func() error { return s.Printf("%s", hostile) },
		"Answer":       func() error { return s.Answer(nil, "%s", hostile) },
		"PrintPayload": func() error { return s.PrintPayload([]byte(hostile)) },
		"PrintJSON":    func() error { return s.PrintJSON(hostile) },
		"Say":          func() error { s.Say("%s", hostile); return nil },
		"Warn":         func() error { s.Warn(fmt.Errorf("%s", hostile)); return nil },
	} {
		if err := print(); err != nil {
			t.Fatal(name, err)
		}
		if line, err := lines.ReadString('\n'); err != nil || strings.ContainsAny(line, "\x1b\u009b\a") || !strings.Contains(line, "31m") {
			t.Errorf("%s writes %q, %v", name, line, err)
		}
	}
}
