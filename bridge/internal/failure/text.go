package failure

import (
	"strconv"
	"strings"
)

// Quote makes what a client sent fit for an error text: quoted, in ASCII, and
// not kilobytes of it.
func Quote(s string) string {
	if len(s) > mostQuoted {
		return strconv.QuoteToASCII(s[:mostQuoted]) + "..."
	}
	return strconv.QuoteToASCII(s)
}

// JSON is Quote for a JSON value, which has quotation marks of its own where it is a text.
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

// plain writes what durations have beyond ASCII as they may be sent, too.
func plain(s string) string { return strings.ReplaceAll(s, "\u00b5s", "us") }
