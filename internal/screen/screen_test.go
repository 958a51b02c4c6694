package screen

import (
	"errors"
	"strings"
	"testing"

	"github.com/pqbridge/pqbridge/internal/testkit/vt"
)

func TestDraw(t *testing.T) {
	t.Parallel()
	terminal := vt.New(10, 3)
	terminal.Wide = wide
	s := New(terminal, true)
	if err := s.Open(); err != nil {
		t.Fatal(err)
	}
	if !terminal.Mode("1049") || terminal.Mode("25") || terminal.Mode("7") {
		t.Error("the shell's screen, the cursor or the wrapping of lines is still there")
	}
	s.Resize(10, 3)
	draw := func(lines ...Line) (written int) {
		t.Helper()
		before := terminal.Written()
		if err := s.Draw(lines); err != nil {
			t.Fatal(err)
		}
		return terminal.Written() - before
	}
	draw(Line{{"one", Bold}, {" two", Red}}, Text("日本語日本語"), Text("three"), Text("four"))
	if got := terminal.Text(); got != "one two\n日本語日…\nthree" {
		t.Errorf("%q", got)
	}
	if cells := terminal.Cells()[0]; cells[0].Style != "1" || cells[4].Style != "31" || cells[7].Style != "" {
		t.Errorf("%+v", cells)
	}
	if n := draw(Line{{"one", Bold}, {" two", Red}}, Text("日本語日本語"), Text("three")); n != 0 {
		t.Errorf("wrote %d bytes for what was there", n)
	}
	draw(Text("1"), nil, Text("three"))
	if got := terminal.Text(); got != "1\n\nthree" {
		t.Errorf("%q", got)
	}
	terminal.Resize(4, 2)
	s.Resize(4, 2)
	draw(Text("12345"), Text("x"))
	if got := terminal.Text(); got != "123…\nx" {
		t.Errorf("%q", got)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if terminal.Mode("1049") || !terminal.Mode("25") || !terminal.Mode("7") || terminal.Mode("2004") {
		t.Error("the terminal is not as it was")
	}
	if err := terminal.Err(); err != nil {
		t.Error(err)
	}
}

// Without colors, what is marked otherwise stays marked.
func TestNoColor(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := New(&out, false)
	s.Resize(20, 1)
	if err := s.Draw([]Line{{{"plain", Red | Yellow}, {"bold", Bold | Red}, {"back", Reverse | Green}}}); err != nil {
		t.Fatal(err)
	}
	if want := "\x1b[0m\x1b[2J\x1b[1;1H\x1b[2Kplain\x1b[1mbold\x1b[0m\x1b[7mback\x1b[0m"; out.String() != want {
		t.Errorf("%q, expected %q", &out, want)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("gone") }

func TestTerminalThatIsGone(t *testing.T) {
	t.Parallel()
	s := New(broken{}, true)
	s.Resize(20, 1)
	if s.Open() == nil || s.Draw([]Line{Text("x")}) == nil || s.Close() == nil {
		t.Error("no error")
	}
}
