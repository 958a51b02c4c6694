package bridge

import (
	"strings"

	"github.com/nats-io/nats.go"
)

// Bounds of a header block. Headers are read one by one before anything else
// can be done with a message, and an item brings them along wherever it goes.
const (
	maxHeaderLines = 1000
	maxHeaderBytes = 64 << 10
)

// The bytes of a header block beside names and values.
const (
	blockFrame = len("NATS/1.0\r\n\r\n")
	lineFrame  = len(": \r\n")
)

// checkBlock refuses a message whose headers are not what its sender meant them
// to be. nats.go delivers a message whose header block it cannot read without
// any headers, and passes over lines without a name and what stands behind the
// empty line. A request without its headers asks for something else. What is
// left to see of the block is its size: the headers have to account for it.
func checkBlock(m *nats.Msg) *failure {
	size := m.Size() - len(m.Subject) - len(m.Reply) - len(m.Data)
	switch {
	case size == 0:
		return nil
	case m.Header == nil:
		return errBlock
	case size > maxHeaderBytes:
		return failf(413, "the headers have %d bytes: allowed are %d", size, maxHeaderBytes)
	}
	lines, read := 0, blockFrame
	for key, values := range m.Header {
		if strings.ContainsFunc(key, isSpaceOrControl) {
			return failf(400, "header name %s: expected no spaces and no control characters; a header is one line, %s", shown(key), blockForm)
		}
		lines += len(values)
		for _, value := range values {
			read += len(key) + len(value) + lineFrame
		}
	}
	switch {
	case lines > maxHeaderLines:
		return failf(413, "there are %d headers: allowed are %d", lines, maxHeaderLines)
	case read < size:
		return failf(400, "%d bytes of the header block are in no header: expected lines such as %s, and nothing behind the empty line", size-read, blockForm)
	}
	return nil
}

const blockForm = "Name: value"

var errBlock = failf(400, "the header block cannot be read: expected NATS/1.0, then lines such as %s, then an empty line", blockForm)

func isSpaceOrControl(c rune) bool { return c <= ' ' || c == 0x7f }
