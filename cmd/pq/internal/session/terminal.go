package session

import (
	"io"
	"os"

	"golang.org/x/term"
)

// interactive reports whether a reader or writer is a terminal, and no other device such as
// /dev/null.
func interactive(v any) bool {
	file, is := v.(*os.File)
	return is && term.IsTerminal(int(file.Fd()))
}

// Tty is a terminal that a command fills.
type Tty struct {
	In      io.Reader
	Out     io.Writer
	Size    func() (columns, lines int)
	Resized chan os.Signal
	Raw     func() (restore func() error, err error) // keys come one by one, and are not shown
}

// Tty is the terminal of the session, nil if there is none that can be filled.
func (s *Session) Tty() *Tty {
	if !interactive(s.Stdin) || !interactive(s.Stdout) || s.Env["TERM"] == "dumb" {
		return nil
	}
	in, out := int(s.Stdin.(*os.File).Fd()), int(s.Stdout.(*os.File).Fd())
	return &Tty{
		In: s.Stdin, Out: s.Stdout, Resized: make(chan os.Signal, 1),
		Size: func() (columns, lines int) {
			columns, lines, err := term.GetSize(out)
			if err != nil || columns <= 0 || lines <= 0 {
				return 80, 24
			}
			return columns, lines
		},
		Raw: func() (func() error, error) {
			before, err := term.MakeRaw(in)
			return func() error { return term.Restore(in, before) }, err
		},
	}
}
