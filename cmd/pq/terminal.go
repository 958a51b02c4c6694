package main

import (
	"io"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/term"
)

// interactive reports whether a reader or writer is a terminal, and no other device such as
// /dev/null.
func interactive(v any) bool {
	file, is := v.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// tty is a terminal that a command fills.
type tty struct {
	in      io.Reader
	out     io.Writer
	size    func() (columns, lines int)
	resized chan os.Signal
	raw     func() (restore func() error, err error) // keys come one by one, and are not shown
}

// tty is the terminal of the session, nil if there is none that can be filled.
func (s *session) tty() *tty {
	if !interactive(s.stdin) || !interactive(s.stdout) || s.env["TERM"] == "dumb" {
		return nil
	}
	in, out := int(s.stdin.(*os.File).Fd()), int(s.stdout.(*os.File).Fd())
	return &tty{
		in: s.stdin, out: s.stdout, resized: make(chan os.Signal, 1),
		size: func() (columns, lines int) {
			columns, lines, err := term.GetSize(out)
			if err != nil || columns <= 0 || lines <= 0 {
				return 80, 24
			}
			return columns, lines
		},
		raw: func() (func() error, error) {
			before, err := term.MakeRaw(in)
			return func() error { return term.Restore(in, before) }, err
		},
	}
}

// watchSize has resized told when the size changes.
func (t *tty) watchSize() (stop func()) {
	signal.Notify(t.resized, syscall.SIGWINCH)
	return func() { signal.Stop(t.resized) }
}
