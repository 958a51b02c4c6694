package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/internal/screen"
)

// print writes to standard output.
func (s *session) print(text string) error {
	_, err := io.WriteString(s.stdout, text)
	return err
}

// printf writes a line to standard output.
func (s *session) printf(format string, args ...any) error {
	_, err := fmt.Fprintf(s.stdout, format+"\n", args...)
	return err
}

// say writes a line for people. With --json it writes nothing.
func (s *session) say(format string, args ...any) {
	if !s.global.json {
		fmt.Fprintf(s.stderr, format+"\n", args...)
	}
}

// printJSON writes an object as one line.
func (s *session) printJSON(v any) error { return writeJSON(s.stdout, v) }

func writeJSON(w io.Writer, v any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(v)
}

// answer writes an object with --json, and the text without.
func (s *session) answer(v any, format string, args ...any) error {
	if s.global.json {
		return s.printJSON(v)
	}
	return s.printf(format, args...)
}

// table writes rows in columns; the first of them is the head.
func table(w io.Writer, rows [][]string) error {
	_, err := io.WriteString(w, strings.Join(columns(rows), "\n")+"\n")
	return err
}

// columns makes lines of rows, with columns as wide as their widest cell. Those
// of numbers are aligned to the right. What cells hold is made visible.
func columns(rows [][]string) []string {
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

// thousands writes a number as 1,234,567.
func thousands(n int64) string {
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

// rate writes how many a second.
func rate(r float64) string {
	if r < 10 {
		return fmt.Sprintf("%.1f", r)
	}
	return thousands(int64(r))
}

// size writes a number of bytes as 1.5 KiB.
func size(n int64) string {
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

// span writes a duration in its two largest units: 2h5m, 3d4h.
func span(d time.Duration) string {
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
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// until writes how long it is to a time, or since.
func until(t time.Time) string {
	if d := time.Until(t); d > 0 {
		return "in " + span(d)
	}
	return span(time.Since(t)) + " ago"
}

// limitSize writes a size as one sets it: 8 MiB.
func limitSize(n int64) string { return strings.Replace(size(n), ".0 ", " ", 1) }

// limit writes a duration as one sets it, without the units that are 0.
func limit(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// many writes a number of things.
func many(n int64, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%s %ss", thousands(n), thing)
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// facts are names with values, one a line, aligned at the colon.
type facts [][2]string

// add adds a fact. What it holds is made visible.
func (f *facts) add(name, format string, args ...any) {
	*f = append(*f, [2]string{name, screen.Visible(fmt.Sprintf(format, args...))})
}

func (f facts) String() string {
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
