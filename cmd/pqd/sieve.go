package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/protocol"
)

// sieve reads the embedded server's messages to the bridge and removes header blocks
// that exceed the bridge's limits. nats.go parses all headers of a message before the
// bridge can refuse it, on the goroutine that reads for the whole bridge. A hundred
// messages with 100,000 headers each kept that goroutine busy until the server closed
// the connection. Counting lines is a hundred times as fast. Such a message reaches the
// bridge without body and headers, with a status that makes the bridge refuse it.
type sieve struct {
	from io.Reader
	base []byte // the whole buffer
	in   []byte // read, and not parsed yet: a part of base
	pass []byte // parsed, for the next Read
	rest int    // following bytes of from that Read returns unparsed
	skip int    // following bytes of from to leave out
	err  error  // that ended reading
}

const (
	// sieveRead is the most bytes read at a time.
	sieveRead = 64 << 10

	// sieveHold is the most bytes held back: a control line and a header block.
	sieveHold = protocol.MaxHeaderBytes + 8<<10
)

// Read implements io.Reader. It returns all bytes at hand, and blocks only when there
// are none.
func (s *sieve) Read(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case len(s.pass) > 0:
			copied := copy(p[n:], s.pass)
			s.pass, n = s.pass[copied:], n+copied
		case s.rest > 0 && len(s.in) > 0:
			copied := copy(p[n:], s.in[:min(s.rest, len(s.in))])
			s.in, s.rest, n = s.in[copied:], s.rest-copied, n+copied
		case s.skip > 0 && len(s.in) > 0:
			skipped := min(s.skip, len(s.in))
			s.in, s.skip = s.in[skipped:], s.skip-skipped
		case s.rest == 0 && s.skip == 0 && s.next():
		case n > 0:
			return n, nil
		case s.err != nil:
			return 0, s.err
		case s.rest > 0:
			n, err = s.from.Read(p[:min(len(p), s.rest)])
			s.rest -= n
			return n, err
		default:
			s.fill()
		}
	}
	return n, nil
}

// fill reads more, behind what is held back, which moves to the front of base
// when there is little room left behind it. Nothing is being handed over.
func (s *sieve) fill() {
	if len(s.in) == 0 {
		s.in = s.base[:0]
	}
	if cap(s.in)-len(s.in) < sieveRead/4 {
		if need := len(s.in) + sieveRead; len(s.base) < need {
			s.in = append(make([]byte, 0, need), s.in...)
			s.base = s.in[:need]
		} else {
			s.in = s.base[:copy(s.base, s.in)]
		}
	}
	n, err := s.from.Read(s.in[len(s.in):cap(s.in)])
	s.in, s.err = s.in[:len(s.in)+n], err
}

// next looks at the message that begins in what was read, and says whether
// there is enough of it to decide what becomes of it. What it does not know it
// hands over as it stands.
func (s *sieve) next() bool {
	end := bytes.IndexByte(s.in, '\n') + 1
	if end == 0 {
		if len(s.in) > sieveHold {
			s.give(len(s.in), 0)
			return true
		}
		return false
	}
	line := s.in[:end]
	isMsg, isHMsg := bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG "))
	if !isMsg && !isHMsg {
		s.give(end, 0)
		return true
	}
	size, before, ok := lastNumber(line)
	if !ok {
		s.give(end, 0)
		return true
	}
	size += len("\r\n")
	if isMsg {
		s.give(end, size)
		return true
	}
	headers, to, ok := lastNumber(before)
	switch {
	case !ok || headers > size:
		s.give(end, size)
	case headers > protocol.MaxHeaderBytes:
		s.replace(to, end, size)
	case len(s.in) < end+headers:
		return false
	case bytes.Count(s.in[end:end+headers], []byte{'\n'}) > protocol.MaxHeaderLines+2: // the first line and the empty one
		s.replace(to, end, size)
	default:
		s.give(end, size)
	}
	return true
}

// lastNumber reads the number at the end of a control line, and returns what
// stands before it.
func lastNumber(line []byte) (n int, before []byte, ok bool) {
	line = bytes.TrimRight(line, " \t\r\n")
	at := len(line)
	for unit := 1; at > 0 && line[at-1] >= '0' && line[at-1] <= '9' && unit <= 1e9; unit *= 10 {
		at--
		n += unit * int(line[at]-'0')
	}
	return n, line[:at], at < len(line) && at > 0 && line[at-1] == ' '
}

// give passes on what has been looked at, and behind bytes after it.
func (s *sieve) give(looked, behind int) {
	s.pass, s.in = s.in[:looked:looked], s.in[looked:]
	s.rest = behind
}

// replace puts a message in the place of one with too many headers; to is its
// control line without the sizes.
func (s *sieve) replace(to []byte, looked, behind int) {
	size := len(bridge.TooManyHeaders)
	s.pass = fmt.Appendf(nil, "%s%d %d\r\n%s\r\n", to, size, size, bridge.TooManyHeaders)
	s.in, s.skip = s.in[looked:], behind
}
