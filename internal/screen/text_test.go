package screen

import (
	"strings"
	"testing"

	"golang.org/x/text/width"

	"github.com/pqbridge/pqbridge/internal/testkit/vt"
)

// wide says for the tests' terminal which characters take two columns.
func wide(r rune) bool {
	kind := width.LookupRune(r).Kind()
	return kind == width.EastAsianWide || kind == width.EastAsianFullwidth
}

func TestVisible(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                               "",
		"jobs":                           "jobs",
		`a\b "c"`:                        `a\b "c"`,
		"naïve – €":                      "naïve – €",
		"日本語":                            "日本語",
		"\x1b[31mred\x07":                `\x1b[31mred\a`,
		"a\nb\tc\r":                      `a\nb\tc\r`,
		"\u009b31m":                      `\u009b31m`,
		"\x9b\xff":                       `\x9b\xff`,
		"\u202etxt.exe\u2066\u200b":      `\u202etxt.exe\u2066\u200b`,
		"\ufeff\u00ad\u2028":             `\ufeff\u00ad\u2028`,
		"שלום":                           `\u05e9\u05dc\u05d5\u05dd`,
		"\u0627\u0661":                   `\u0627\u0661`,
		"e\u0301\u0489":                  `e\u0301\u0489`,
		"\u115f\u1160\u3164\uffa0\ud7b0": `\u115f\u1160\u3164\uffa0\ud7b0`,
		"👩\u200d💻\ufe0f":                 `👩\u200d💻\ufe0f`,
		"\U000e0041\ue000":               `\U000e0041\ue000`,
	} {
		if got := Visible(text); got != want {
			t.Errorf("%q: %q, expected %q", text, got, want)
		}
	}
}

func TestWidth(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]int{"": 0, "jobs": 4, "日本語": 6, "ｱ": 1, "Ａ": 2, "👩": 2, "é": 1} {
		if got := Width(text); got != want {
			t.Errorf("%q: %d columns, expected %d", text, got, want)
		}
	}
	for columns, want := range []string{"", "…", "…", "日…", "日…", "日本…", "日本語"} {
		if got := Cut("日本語", columns); got != want {
			t.Errorf("%d columns: %q, expected %q", columns, got, want)
		}
	}
	if got := strings.Join(Wrap("日本語abc", 4), "|"); got != "日本|語ab|c" {
		t.Errorf("wrapped: %s", got)
	}
	if got := Pad("日", 4, true) + Pad("a", 3, false) + Pad("long", 1, false); got != "  日a  long" {
		t.Errorf("padded: %q", got)
	}
}

// Whatever the text, the terminal gets characters that do nothing but stand in their line.
func FuzzDraw(f *testing.F) {
	f.Add("jobs", 80)
	f.Add("\x1b]0;title\x07\x1b[2J日本\u202e", 11)
	f.Add("日本語日本語", 5)
	f.Fuzz(func(t *testing.T, text string, columns int) {
		if columns < 1 || columns > 200 || len(text) > 4096 {
			return
		}
		terminal := vt.New(columns, 2)
		terminal.Wide = wide
		s := New(terminal, true)
		s.Resize(columns, 2)
		for _, err := range []error{
			s.Open(),
			s.Draw([]Line{{{Text: text, Style: Bold | Red}, {Text: "|"}, {Text: text}}, Text("below")}),
			terminal.Err(),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		if got := terminal.Lines()[1]; got != Cut("below", columns) {
			t.Fatalf("the second line is %q", got)
		}
		for _, line := range Wrap(Visible(text), columns) {
			if w := Width(line); w > max(2, columns) {
				t.Fatalf("wrapped to %d columns: %d in %q", columns, w, line)
			}
		}
	})
}
