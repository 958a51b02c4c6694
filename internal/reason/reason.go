// Package reason shortens texts to the part that is kept as the reason of an attempt or of a dead letter: pqd
// shortens the reasons of settlements, and refuses to import longer ones.
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
