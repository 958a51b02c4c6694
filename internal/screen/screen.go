// Package screen draws lines on a terminal, and reads its keys.
//
// Only visible characters reach the terminal, whatever the lines contain, and no line is longer than the screen is
// wide.
package screen

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// Style is the look of text; styles add up.
type Style uint8

// The styles.
const (
	Bold Style = 1 << iota
	Faint
	Reverse
	Red
	Yellow
	Green
	Blue

	colors = Red | Yellow | Green | Blue
)

// codes are the numbers of the styles in the order of their bits.
var codes = []int{1, 2, 7, 31, 33, 32, 34}

// Span is a piece of a line.
type Span struct {
	Text  string
	Style Style
}

// Line is a line of the screen.
type Line []Span

// Text is a line without styles.
func Text(text string) Line { return Line{{Text: text}} }

// Screen is a terminal on which a program draws. One goroutine uses it.
type Screen struct {
	out            io.Writer
	color          bool
	columns, lines int
	drawn          []string // the content of each line; nil: unknown
}

// New returns a screen that writes to a terminal, with colors or without.
func New(out io.Writer, color bool) *Screen { return &Screen{out: out, color: color} }

// Sequences at the beginning and at the end: another screen than the shell's, no cursor, no wrapping of lines,
// pasted text between marks.
const (
	enter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[?2004h"
	leave = "\x1b[0m\x1b[?2004l\x1b[?7h\x1b[?25h\x1b[?1049l"
)

// Open takes the screen.
func (s *Screen) Open() error { return s.write(enter) }

// Close gives the screen back as it was.
func (s *Screen) Close() error { return s.write(leave) }

// Resize sets the size. The next Draw draws everything anew.
func (s *Screen) Resize(columns, lines int) {
	s.columns, s.lines, s.drawn = columns, lines, nil
}

// Draw shows these lines from the top. It writes the lines that have changed, all at once.
func (s *Screen) Draw(lines []Line) error {
	var b strings.Builder
	if s.drawn == nil {
		b.WriteString("\x1b[0m\x1b[2J")
		s.drawn = make([]string, s.lines)
	}
	for i := range s.drawn {
		text := ""
		if i < len(lines) {
			text = s.encode(lines[i])
		}
		if text != s.drawn[i] {
			fmt.Fprintf(&b, "\x1b[%d;1H\x1b[2K%s", i+1, text)
			s.drawn[i] = text
		}
	}
	if b.Len() == 0 {
		return nil
	}
	return s.write(b.String())
}

// encode turns a line into bytes for the terminal.
func (s *Screen) encode(line Line) string {
	var b strings.Builder
	column := 0
	for _, span := range line {
		text := Cut(Visible(span.Text), s.columns-column)
		if text == "" {
			continue
		}
		styled := s.begin(&b, span.Style)
		b.WriteString(text)
		if styled {
			b.WriteString("\x1b[0m")
		}
		column += Width(text)
		if len(text) != utf8.RuneCountInString(text) && column < s.columns {
			// Terminals differ in how wide they draw some characters.
			fmt.Fprintf(&b, "\x1b[%dG", column+1)
		}
	}
	return b.String()
}

// begin begins a style, and reports whether it has to be ended.
func (s *Screen) begin(b *strings.Builder, style Style) bool {
	if !s.color {
		style &^= colors
	}
	if style == 0 {
		return false
	}
	between := "\x1b["
	for bit, code := range codes {
		if style&(1<<bit) != 0 {
			fmt.Fprintf(b, "%s%d", between, code)
			between = ";"
		}
	}
	b.WriteByte('m')
	return true
}

func (s *Screen) write(text string) error {
	_, err := io.WriteString(s.out, text)
	return err
}
