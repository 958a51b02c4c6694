package failure

import (
	"strconv"
	"strings"
)

// Quote makes what a client sent fit for an error text: quoted, in ASCII, and
// not kilobytes of it.
func Quote(s string) string {
	const most = 80
	if len(s) > most {
		return strconv.QuoteToASCII(s[:most]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

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

// plain writes what durations have beyond ASCII as they may be sent, too.
func plain(s string) string { return strings.ReplaceAll(s, "\u00b5s", "us") }
