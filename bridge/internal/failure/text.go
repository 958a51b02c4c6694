package failure

import (
	"strconv"
	"strings"
)

// Quote makes a client's text fit for an error text: quoted, in ASCII, and shortened.
func Quote(s string) string {
	if len(s) > mostQuoted {
		return strconv.QuoteToASCII(s[:mostQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// JSON does the same for a JSON value, which has quotation marks of its own if it is a string.
func JSON(value []byte) string {
	if len(value) > mostQuoted {
		return strings.ToValidUTF8(string(value[:mostQuoted]), "") + "..."
	}
	return string(value)
}

const mostQuoted = 80 // bytes

// HeaderText makes a text fit for a header.
func HeaderText(s string) string {
	const most = 800
	if len(s) > most {
		s = s[:most] + "..."
	}
	clean := func(c rune) rune {
		if c < ' ' || c > '~' {
			return '?'
		}
		return c
	}
	return strings.Map(clean, plain(s))
}

// plain replaces the characters of durations that are not ASCII.
func plain(s string) string { return strings.ReplaceAll(s, "\u00b5s", "us") }
