package screen

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/bidi"
	"golang.org/x/text/width"
)

// Visible shows a text so that it can do nothing to a terminal, and so that its width is
// known. Characters that control, have no shape, join others or turn the direction of the
// text are shown by their number, as in Go's string literals.
func Visible(text string) string {
	clean := 0
	for clean < len(text) && text[clean] >= ' ' && text[clean] <= '~' {
		clean++
	}
	if clean == len(text) {
		return text
	}
	shown := append(make([]byte, 0, len(text)+16), text[:clean]...)
	for rest := text[clean:]; rest != ""; {
		r, size := utf8.DecodeRuneInString(rest)
		switch {
		case r == utf8.RuneError && size == 1:
			shown = append(shown, `\x`...)
			shown = append(shown, "0123456789abcdef"[rest[0]>>4], "0123456789abcdef"[rest[0]&15])
		case shaped(r):
			shown = append(shown, rest[:size]...)
		default:
			quoted := strconv.QuoteRuneToASCII(r)
			shown = append(shown, quoted[1:len(quoted)-1]...)
		}
		rest = rest[size:]
	}
	return string(shown)
}

// fillers are characters that Unicode counts as letters but that have no shape, and parts of syllables that
// terminals put into the cell of the letter before.
var fillers = &unicode.RangeTable{R16: []unicode.Range16{
	{Lo: 0x115f, Hi: 0x11ff, Stride: 1}, {Lo: 0x3164, Hi: 0x3164, Stride: 1},
	{Lo: 0xd7b0, Hi: 0xd7ff, Stride: 1}, {Lo: 0xffa0, Hi: 0xffa0, Stride: 1},
}}

// shaped reports whether a character has a shape and a place of its own, in the order of
// the text. Some terminals draw a line with right-to-left letters in another order.
func shaped(r rune) bool {
	if r < utf8.RuneSelf {
		return r >= ' ' && r <= '~'
	}
	if !strconv.IsPrint(r) || unicode.Is(unicode.M, r) || unicode.Is(fillers, r) {
		return false
	}
	properties, _ := bidi.LookupRune(r)
	switch properties.Class() {
	case bidi.R, bidi.AL, bidi.AN:
		return false
	}
	return true
}

// Width is how many columns a text takes that Visible has returned.
func Width(text string) int {
	columns := 0
	for _, r := range text {
		columns += columnsOf(r)
	}
	return columns
}

func columnsOf(r rune) int {
	if r >= utf8.RuneSelf {
		switch width.LookupRune(r).Kind() {
		case width.EastAsianWide, width.EastAsianFullwidth:
			return 2
		}
	}
	return 1
}

// Cut shortens a text that Visible has returned to a number of columns.
func Cut(text string, columns int) string {
	if Width(text) <= columns {
		return text
	}
	left := columns - 1 // for the ellipsis
	for i, r := range text {
		if left -= columnsOf(r); left < 0 {
			return text[:i] + strings.Repeat("…", min(1, columns))
		}
	}
	return text
}

// Pad fills a text to a number of columns, on its left if right is set.
func Pad(text string, columns int, right bool) string {
	space := strings.Repeat(" ", max(0, columns-Width(text)))
	if right {
		return space + text
	}
	return text + space
}

// Wrap divides a text that Visible has returned into lines of this many columns.
func Wrap(text string, columns int) (lines []string) {
	from, left := 0, columns
	for i, r := range text {
		if left -= columnsOf(r); left < 0 && i > from {
			lines = append(lines, text[from:i])
			from, left = i, columns-columnsOf(r)
		}
	}
	return append(lines, text[from:])
}
