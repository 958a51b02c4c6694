package show

import (
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/pqbridge/pqbridge/internal/screen"
)

// Table writes rows in columns; the first of them is the head.
func Table(w io.Writer, rows [][]string) error {
	_, err := io.WriteString(w, strings.Join(Columns(rows), "\n")+"\n")
	return err
}

// Without are the rows of a table but for the columns with these names.
func Without(rows [][]string, names ...string) [][]string {
	var kept []int
	for c, name := range rows[0] {
		if !slices.Contains(names, name) {
			kept = append(kept, c)
		}
	}
	all := make([][]string, len(rows))
	for r, row := range rows {
		for _, c := range kept {
			all[r] = append(all[r], row[c])
		}
	}
	return all
}

// Columns makes lines of rows, with columns as wide as their widest cell. Those
// of numbers are aligned to the right. What cells hold is made visible.
func Columns(rows [][]string) []string {
	for _, row := range rows {
		for c := range row {
			row[c] = screen.Visible(row[c])
		}
	}
	widths := make([]int, len(rows[0]))
	numeric := make([]bool, len(rows[0]))
	for c := range numeric {
		numeric[c] = len(rows) > 1
	}
	for r, row := range rows {
		for c, cell := range row {
			widths[c] = max(widths[c], screen.Width(cell))
			numeric[c] = numeric[c] && (r == 0 || startsNumber(cell))
		}
	}
	lines := make([]string, len(rows))
	for r, row := range rows {
		var b strings.Builder
		for c, cell := range row {
			b.WriteString(screen.Pad(cell, widths[c], numeric[c]) + "  ")
		}
		lines[r] = strings.TrimRight(b.String(), " ")
	}
	return lines
}

// startsNumber reports whether a cell is a number, with or without a unit, or the
// dash that stands for none.
func startsNumber(cell string) bool {
	return cell == "-" || cell != "" && strings.IndexByte("-0123456789", cell[0]) >= 0
}

// Thousands writes a number as 1,234,567.
func Thousands(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// Rate writes how many a second.
func Rate(r float64) string {
	if r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return Thousands(int64(r))
}

// Size writes a number of bytes as 1.5 KiB.
func Size(n int64) string {
	value, unit := float64(n), 0
	for value >= 1024 && unit < 4 {
		value /= 1024
		unit++
	}
	if unit == 0 {
		return fmt.Sprintf("%d B", n)
	}
	return fmt.Sprintf("%.1f %s", value, []string{"", "KiB", "MiB", "GiB", "TiB"}[unit])
}

// Span writes a duration in its two largest units: 2h5m, 3d4h.
func Span(d time.Duration) string {
	switch {
	case d <= 0:
		return "0s"
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 10*time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(time.Second).String()
	case d < time.Hour:
		return fmt.Sprintf("%dm%ds", d/time.Minute, d%time.Minute/time.Second)
	case d < Day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/Day, d%Day/time.Hour)
}

// Minutes writes a duration of minutes or more, in those and in what is larger: 3m, 2h5m, 3d4h.
func Minutes(d time.Duration) string {
	if d < time.Hour {
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return Span(d)
}

// Until writes how long it is to a time, or since.
func Until(t time.Time) string {
	if d := time.Until(t); d > 0 {
		return "in " + Span(d)
	}
	return Span(time.Since(t)) + " ago"
}

// LimitSize writes a size as one sets it: 8 MiB.
func LimitSize(n int64) string { return strings.Replace(Size(n), ".0 ", " ", 1) }

// Limit writes a duration as one sets it, without the units that are 0.
func Limit(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// Many writes a number of things.
func Many(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%s %ss", Thousands(n), thing)
}

func Seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// Facts are names with values, one a line, aligned at the colon.
type Facts [][2]string

// Add adds a fact. What it holds is made visible.
func (f *Facts) Add(name, format string, args ...any) {
	*f = append(*f, [2]string{name, screen.Visible(fmt.Sprintf(format, args...))})
}

func (f Facts) String() string {
	width := 0
	for _, fact := range f {
		width = max(width, len(fact[0]))
	}
	var b strings.Builder
	for _, fact := range f {
		if fact[0] == "" {
			b.WriteByte('\n')
			continue
		}
		fmt.Fprintln(&b, strings.TrimRight(fmt.Sprintf("%*s: %s", width+2, fact[0], fact[1]), " "))
	}
	return b.String()
}

const Day = 24 * time.Hour

func WriteJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// HarmlessJSON is a writer of JSON to a terminal, which it does nothing to. JSON has words for the
// control characters of ASCII alone: the others, and those that turn the direction of a text, are
// written as their numbers, which means the same. Others stay, such as those that join emoji. Each Write is of whole characters.
type HarmlessJSON struct{ To io.Writer }

// Write implements io.Writer.
func (h HarmlessJSON) Write(text []byte) (int, error) {
	var shown []byte
	for _, r := range string(text) {
		if r != '\n' && unicode.In(r, unicode.Cc, unicode.Bidi_Control) {
			shown = fmt.Appendf(shown, `\u%04x`, r)
		} else {
			shown = utf8.AppendRune(shown, r)
		}
	}
	if _, err := h.To.Write(shown); err != nil {
		return 0, err
	}
	return len(text), nil
}

// Command is a command of pq for people to copy: its name, arguments and options. Arguments are texts that others chose:
// in a shell each is one word, and pq takes none for an option, as behind --.
func Command(name string, args []string, options ...string) string {
	words := []string{"pq", name}
	dash := slices.IndexFunc(args, func(arg string) bool { return strings.HasPrefix(arg, "-") })
	if dash >= 0 {
		words = append(words, options...)
		options = nil
	}
	for i, arg := range args {
		if i == dash {
			words = append(words, "--")
		}
		words = append(words, word(arg))
	}
	return strings.Join(append(words, options...), " ")
}

// plain matches words that need no quotes.
var plain = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.-]*$`)

// word is a text as a shell takes it for one word.
func word(text string) string {
	if plain.MatchString(text) {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// Disconnected says since when nobody answers, and from when the numbers are.
func Disconnected(now, since, good time.Time, why string) string {
	if good.IsZero() {
		return fmt.Sprintf(" disconnected since %s, %s: %s", since.Format(time.TimeOnly), Span(now.Sub(since).Round(time.Second)), why)
	}
	return fmt.Sprintf(" disconnected since %s, %s: %s; numbers from %s",
		since.Format(time.TimeOnly), Span(now.Sub(since).Round(time.Second)), why, good.Format(time.TimeOnly))
}
