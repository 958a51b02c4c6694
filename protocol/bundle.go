package protocol

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// MaxBundle bounds the items, or the settlements, of one bundle: one transaction, and one
// answer.
const MaxBundle = 1000

// AppendFrame appends an item to the body of a bundle. headers are lines "Name: value",
// each of which ends in a line feed.
func AppendFrame(b, headers, payload []byte) []byte {
	b = strconv.AppendInt(b, int64(len(headers)), 10)
	b = append(b, ' ')
	b = strconv.AppendInt(b, int64(len(payload)), 10)
	b = append(b, '\n')
	b = append(b, headers...)
	b = append(b, payload...)
	return append(b, '\n')
}

// AppendHeaders appends headers of an item in a bundle, each kept in its line.
func AppendHeaders(b []byte, header map[string][]string) []byte {
	for name, values := range header {
		for _, value := range values {
			b = append(append(b, OneLine(name)...), ": "...)
			b = append(append(b, OneLine(value)...), '\n')
		}
	}
	return b
}

// OneLine returns a text with a space in place of each line break: clients of NATS send headers that way.
func OneLine(text string) string { return lineBreaks.Replace(text) }

var lineBreaks = strings.NewReplacer("\r", " ", "\n", " ")

// frameLine describes the first line of a frame, for errors.
const frameLine = "a line with the bytes of its headers and those of its payload, such as 0 13"

// maxFrameLine is the longest first line that is read.
const maxFrameLine = 32

// NextFrame reads the first item of what is left of a bundle. The line feed behind the last item may be missing.
func NextFrame(b []byte) (headers, payload, rest []byte, err error) {
	end := bytes.IndexByte(b[:min(len(b), maxFrameLine)], '\n')
	if end < 0 {
		return nil, nil, nil, fmt.Errorf("%s: expected %s", quoteStart(b), frameLine)
	}
	first, second, two := strings.Cut(string(b[:end]), " ")
	var sizes [2]int
	for i, text := range [...]string{first, second} {
		n, err := strconv.Atoi(text)
		if !two || err != nil || n < 0 || strconv.Itoa(n) != text {
			return nil, nil, nil, fmt.Errorf("%s: expected %s", quoteStart(b), frameLine)
		}
		sizes[i] = n
	}
	rest = b[end+1:]
	if sizes[0] > len(rest) || sizes[1] > len(rest)-sizes[0] {
		return nil, nil, nil, fmt.Errorf("its first line says %d and %d bytes, and the message has %d more", sizes[0], sizes[1], len(rest))
	}
	headers, rest = rest[:sizes[0]], rest[sizes[0]:]
	payload, rest = rest[:sizes[1]], rest[sizes[1]:]
	switch {
	case len(rest) == 0:
	case rest[0] == '\n':
		rest = rest[1:]
	default:
		return nil, nil, nil, fmt.Errorf("its payload is followed by %s: expected a line feed", quoteStart(rest))
	}
	return headers, payload, rest, nil
}

// NextHeader reads the first header line of an item. A carriage return before the line feed is not part of the
// value.
func NextHeader(headers []byte) (name, value string, rest []byte, err error) {
	line, rest, ends := bytes.Cut(headers, []byte{'\n'})
	key, text, is := bytes.Cut(bytes.TrimSuffix(line, []byte{'\r'}), []byte{':'})
	if len(text) > 0 && isSpace(text[0]) {
		text = text[1:]
	}
	if !ends || !is || len(key) == 0 || len(text) > 0 && isSpace(text[0]) {
		return "", "", nil, fmt.Errorf("%s: expected a header such as Name: value, and a line feed behind it", quoteStart(headers))
	}
	name = string(key)
	value, err = HeaderValue(name, string(text))
	return name, value, rest, err
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// HeaderValue returns the value of a header without the spaces at its end, and an error if the header is not one
// line with a name. The headers of messages and of items in bundles follow the same rules.
func HeaderValue(name, text string) (string, error) {
	if strings.ContainsFunc(name, func(c rune) bool { return c <= ' ' || c == 0x7f }) {
		return "", fmt.Errorf("header name %s: expected no spaces and no control characters; a header is one line, Name: value", quoteStart([]byte(name)))
	}
	if strings.IndexByte(text, '\r') >= 0 {
		return "", fmt.Errorf("header %s has a carriage return in its value: expected one line, Name: value", quoteStart([]byte(name)))
	}
	return strings.TrimRight(text, " \t"), nil
}

// quoteStart shows the start of a part of a bundle that cannot be read.
func quoteStart(b []byte) string {
	if len(b) == 0 {
		return "the message ends here"
	}
	return strconv.Quote(strings.ToValidUTF8(string(b[:min(len(b), maxFrameLine)]), "?"))
}
