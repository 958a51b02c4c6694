package codec

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/protocol"
)

// TooManyHeaders stands in place of a header block with too many headers.
const TooManyHeaders = "NATS/1.0 413\r\n\r\n"

// TooManyBytes is the header block of a message that was refused unread.
const TooManyBytes = "NATS/1.0 429\r\n\r\n"

var (
	errTooManyHeaders = failure.Newf(413, "there are too many headers: allowed are %d, and %d bytes in all", protocol.MaxHeaderLines, protocol.MaxHeaderBytes)
	errTooManyBytes   = &failure.Failure{Code: 429, Reason: protocol.ReasonBusy, Text: "more bytes arrive than this bridge can read, nothing was done: try again in a moment"}
)

// The bytes of a header block beside names and values.
const (
	blockFrame = len("NATS/1.0\r\n\r\n")
	lineFrame  = len(": \r\n")
)

// CheckBlock refuses a message whose headers nats.go has not read completely. nats.go delivers a message with an
// unreadable header block without headers, and ignores lines without a name and everything behind the empty line. A
// request without its headers is another request. Only the size of the block is left to check: the headers have to
// account for it, except for a space that each line may lack behind its colon. A missing carriage return counts as
// such a space, and lines without that space can hide as many extra bytes.
func CheckBlock(m *nats.Msg) *failure.Failure {
	size := m.Size() - len(m.Subject) - len(m.Reply) - len(m.Data)
	switch {
	case size == 0:
		return nil
	case m.Header == nil:
		return errBlock
	case size > protocol.MaxHeaderBytes:
		return failure.Newf(413, "the headers have %d bytes: allowed are %d", size, protocol.MaxHeaderBytes)
	}
	if size == len(TooManyHeaders) {
		switch m.Header.Get(protocol.HeaderStatus) {
		case "413":
			return errTooManyHeaders
		case "429":
			return errTooManyBytes
		}
	}
	lines, read := 0, blockFrame
	for key, values := range m.Header {
		lines += len(values)
		for i, text := range values {
			read += len(key) + len(text) + lineFrame
			value, err := protocol.HeaderValue(key, text)
			if err != nil {
				return failure.BadRequest(err)
			}
			if f := checkHeaderValue(key, value); f != nil {
				return f
			}
			values[i] = value
		}
	}
	switch {
	case lines > protocol.MaxHeaderLines:
		return failure.Newf(413, "there are %d headers: allowed are %d", lines, protocol.MaxHeaderLines)
	case read < size:
		return failure.Newf(400, "%d bytes of the header block are in no header: expected lines such as %s with one space behind the colon, and nothing behind the empty line", size-read, blockForm)
	case read-size > lines:
		return failure.Newf(400, "the header block lacks %d bytes of its form: expected NATS/1.0 without a status, and a carriage return before each line feed", read-size)
	}
	return nil
}

const blockForm = "Name: value"

var errBlock = failure.Newf(400, "the header block cannot be read: expected NATS/1.0, then lines such as %s, then an empty line", blockForm)

// checkHeaderValue refuses characters that would end a header for some readers: each client has to get the value
// that was sent.
func checkHeaderValue(name, value string) *failure.Failure {
	if strings.ContainsAny(value, "\r\n\x00") {
		return failure.Newf(400, "header %s is %s: expected one line without zero bytes", failure.Quote(name), failure.Quote(value))
	}
	return nil
}
