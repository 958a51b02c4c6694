package session

import (
	"fmt"
	"io"

	"github.com/pqbridge/pqbridge/cmd/pq/internal/show"
)

// Print writes to standard output.
func (s *Session) Print(text string) error {
	_, err := io.WriteString(s.Stdout, text)
	return err
}

// PrintPayload writes a payload to standard output. What a producer sends moves no cursor and sets no title of a terminal; a
// file or a pipe has it byte for byte.
func (s *Session) PrintPayload(payload []byte) error {
	text := string(show.Line(payload))
	if interactive(s.Stdout) {
		text = show.Harmless(text)
	}
	return s.Print(text)
}

// Printf writes a line to standard output. What others have sent does nothing to a terminal.
func (s *Session) Printf(format string, args ...any) error {
	return s.PrintPayload(fmt.Appendf(nil, format+"\n", args...))
}

// Tell writes a line to standard error. Its text may be of whoever answers in the place of pqd, so it does nothing to a terminal.
func (s *Session) Tell(format string, args ...any) {
	fmt.Fprintln(s.Stderr, show.Harmless(fmt.Sprintf(format, args...)))
}

// Say writes a line for people. With --json it writes nothing.
func (s *Session) Say(format string, args ...any) {
	if !s.Global.JSON {
		s.Tell(format, args...)
	}
}

// PrintJSON writes an object as one line.
func (s *Session) PrintJSON(v any) error { return show.WriteJSON(s.OfJSON(s.Stdout), v) }

// OfJSON is a writer of lines of JSON. If they end at a terminal they do nothing to it.
func (s *Session) OfJSON(w io.Writer) io.Writer {
	if interactive(s.Stdout) {
		return show.HarmlessJSON{To: w}
	}
	return w
}

// Answer writes an object with --json, and the text without.
func (s *Session) Answer(v any, format string, args ...any) error {
	if s.Global.JSON {
		return s.PrintJSON(v)
	}
	return s.Printf(format, args...)
}
