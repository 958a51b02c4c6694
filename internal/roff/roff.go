// Package roff writes manual pages.
package roff

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Text is a text that man shows as it stands.
func Text(text string) string {
	var escaped strings.Builder
	begins := true
	for _, r := range text {
		switch {
		case begins && (r == '.' || r == '\''):
			fmt.Fprintf(&escaped, `\&%c`, r)
		case r == '\\':
			escaped.WriteString(`\e`)
		case r == '-':
			escaped.WriteString(`\-`)
		case r >= utf8.RuneSelf:
			fmt.Fprintf(&escaped, `\[u%04X]`, r)
		default:
			escaped.WriteRune(r)
		}
		begins = r == '\n'
	}
	return escaped.String()
}
