// Package reason has how much of a text is kept as the reason of an attempt or of a dead letter: pqd shortens what settlements
// say, and refuses to import more.
package reason

import (
	"strings"
	"unicode"
)

// Text is the first bytes of a text, up to most, in UTF-8, with spaces for control characters.
func Text(text string, most int) string {
	text = strings.Map(func(c rune) rune {
		if unicode.IsControl(c) {
			return ' '
		}
		return c
	}, strings.ToValidUTF8(text, "\uFFFD"))
	if len(text) > most {
		text = strings.ToValidUTF8(text[:most], "") // which may have cut a character
	}
	return text
}
