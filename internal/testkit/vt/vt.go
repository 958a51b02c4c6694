// Package vt is a terminal for tests: it keeps everything that a program has drawn.
//
// It is strict. It knows the sequences that a program of this module may send; any other control character or
// sequence is an error. So a test notices when somebody else's text reaches the terminal unescaped.
package vt

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/width"
)

// Cell is a place on the screen.
type Cell struct {
	Rune  rune   // 0 behind a wide character
	Style string // the numbers of the style, such as "1;31"
}

// Screen is the picture that a terminal shows. Several goroutines may use it.
type Screen struct {
	// Wide reports the characters that take two columns.
	Wide func(r rune) bool

	mu      sync.Mutex
	changed chan struct{} // closed with the next change
	pending []byte
	err     error
	cells   [][]Cell
	line    int
	column  int
	style   string
	modes   map[string]bool
	drawn   int // bytes
}

// New returns an empty screen.
func New(columns, lines int) *Screen {
	s := &Screen{modes: map[string]bool{"25": true, "7": true}, changed: make(chan struct{})}
	s.resize(columns, lines)
	return s
}

// NewWide returns a screen on which the wide characters of East Asia take two columns.
func NewWide(columns, lines int) *Screen {
	s := New(columns, lines)
	s.Wide = func(r rune) bool {
		kind := width.LookupRune(r).Kind()
		return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
	}
	return s
}

// Resize changes the size. The old content is gone, as if the terminal had moved it about.
func (s *Screen) Resize(columns, lines int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resize(columns, lines)
}

func (s *Screen) resize(columns, lines int) {
	s.cells = make([][]Cell, lines)
	for i := range s.cells {
		s.cells[i] = make([]Cell, columns)
		for c := range s.cells[i] {
			s.cells[i][c].Rune = '#' // not what a program expects
		}
	}
	s.line, s.column = 0, 0
}

// Write takes the output of a program. It fails at anything that a program must not write.
func (s *Screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drawn += len(p)
	s.pending = append(s.pending, p...)
	for len(s.pending) > 0 && s.err == nil {
		n := s.next()
		if n == 0 {
			break
		}
		s.pending = s.pending[n:]
	}
	close(s.changed)
	s.changed = make(chan struct{})
	return len(p), s.err
}

// Err is the first error of Write.
func (s *Screen) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// Changed returns a channel that is closed when something is written.
func (s *Screen) Changed() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.changed
}

// Written is how many bytes were written so far.
func (s *Screen) Written() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.drawn
}

// Mode reports whether a private mode of the terminal is set: 1049 for another screen than
// the shell's, 25 for the cursor.
func (s *Screen) Mode(number string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.modes[number]
}

// Cells are the cells of the screen.
func (s *Screen) Cells() [][]Cell {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make([][]Cell, len(s.cells))
	for i := range all {
		all[i] = append([]Cell(nil), s.cells[i]...)
	}
	return all
}

// Lines is the text of the screen, without the space at the end of its lines.
func (s *Screen) Lines() []string {
	var lines []string
	for _, cells := range s.Cells() {
		var b strings.Builder
		for _, cell := range cells {
			if cell.Rune != 0 {
				b.WriteRune(cell.Rune)
			}
		}
		lines = append(lines, strings.TrimRight(b.String(), " "))
	}
	return lines
}

// Text is the text of the screen.
func (s *Screen) Text() string { return strings.Join(s.Lines(), "\n") }

// sequence is a control sequence: private mark, numbers, final letter.
var sequence = regexp.MustCompile(`^\x1b\[(\??)([0-9;]*)([A-Za-z])`)

// next takes one character or sequence, and returns its length: 0 if the rest is missing.
func (s *Screen) next() int {
	b := s.pending
	if b[0] == 0x1b {
		m := sequence.FindSubmatch(b)
		switch {
		case m != nil:
			s.control(string(m[1]), string(m[2]), string(m[3]))
			return len(m[0])
		case len(b) < 16 && regexp.MustCompile(`^\x1b(\[\??[0-9;]*)?$`).Match(b):
			return 0
		}
		s.fail("the sequence %q", b[:min(len(b), 16)])
		return 1
	}
	if !utf8.FullRune(b) {
		return 0
	}
	r, n := utf8.DecodeRune(b)
	if r == utf8.RuneError && n == 1 || unicode.IsControl(r) || !unicode.IsGraphic(r) || unicode.Is(unicode.M, r) {
		s.fail("the character %q in %q", b[:n], b[:min(len(b), 40)])
		return n
	}
	s.put(r)
	return n
}

// put draws a character. The terminal stands at its last column and does not go on in the
// next line.
func (s *Screen) put(r rune) {
	width := 1
	if s.Wide != nil && s.Wide(r) {
		width = 2
	}
	if s.modes["7"] {
		s.fail("the character %q while lines wrap", r)
		return
	}
	cells := s.cells[s.line]
	if s.column+width > len(cells) {
		s.fail("the character %q beyond column %d of %q", r, len(cells), string(s.pending[:min(len(s.pending), 40)]))
		return
	}
	cells[s.column] = Cell{r, s.style}
	if width == 2 {
		cells[s.column+1] = Cell{0, s.style}
	}
	s.column += width
}

// control runs a sequence.
func (s *Screen) control(private, parameters, final string) {
	var numbers []int
	for text := range strings.SplitSeq(parameters, ";") {
		n, err := strconv.Atoi(text)
		if err != nil {
			n = -1
		}
		numbers = append(numbers, n)
	}
	switch {
	case private == "?" && (final == "h" || final == "l"):
		s.modes[parameters] = final == "h"
	case private != "":
		s.fail("the sequence ESC [ %s %s %s", private, parameters, final)
	case final == "H" && len(numbers) == 2 && numbers[0] >= 1 && numbers[1] >= 1:
		s.line, s.column = min(numbers[0], len(s.cells))-1, min(numbers[1], len(s.cells[0]))-1
	case final == "G" && len(numbers) == 1 && numbers[0] >= 1:
		s.column = min(numbers[0], len(s.cells[0])) - 1
	case final == "J" && parameters == "2":
		for i := range s.cells {
			s.clear(i)
		}
	case final == "K" && parameters == "2":
		s.clear(s.line)
	case final == "m" && parameters == "0":
		s.style = ""
	case final == "m":
		s.style = parameters
	default:
		s.fail("the sequence ESC [ %s %s", parameters, final)
	}
}

func (s *Screen) clear(line int) {
	for c := range s.cells[line] {
		s.cells[line][c] = Cell{Rune: ' '}
	}
}

func (s *Screen) fail(format string, args ...any) {
	if s.err == nil {
		s.err = fmt.Errorf("the terminal got "+format, args...)
	}
}
