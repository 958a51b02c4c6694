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
//
// It does the same with large messages while the server holds too much for the bridge:
// leaving out bytes is many times as fast as handing them to nats.go, which copies each
// message. Clients that push more than the bridge can read would otherwise make the
// server close the bridge's connection.
type sieve struct {
	from   io.Reader
	behind backlogCheck // nil: the server never holds too much
	info   []byte       // what the server said last of itself and the connection
	large  int          // bytes of large messages since behind was asked
	sheds  bool         // what it answered

	base []byte // the whole buffer
	in   []byte // read, and not parsed yet: a part of base
	pass []byte // parsed, for the next Read
	rest int    // following bytes of from that Read returns unparsed
	skip int    // following bytes of from to leave out
	err  error  // that ended reading
}

// backlogCheck reports whether the server holds too much for the connection that it
// described in that INFO, beside a message of that size which is being read.
type backlogCheck func(info []byte, size int) bool

const (
	// sieveRead is the most bytes read at a time.
	sieveRead = 64 << 10

	// sieveHold is the most bytes held back: a control line and a header block.
	sieveHold = protocol.MaxHeaderBytes + 8<<10

	// sieveLarge is the size from which messages are left out under pressure. Receiving
	// a smaller one costs little more than refusing it.
	sieveLarge = 8 << 10

	// sieveAsk is how many bytes of large messages pass between two questions of
	// how much the server holds.
	sieveAsk = 256 << 10
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

// next looks at the message that begins in what was read, and reports whether
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
		if bytes.HasPrefix(line, []byte("INFO ")) {
			s.info = append(s.info[:0], line...)
		}
		s.give(end, 0)
		return true
	}
	size, to, ok := lastNumber(line)
	if !ok {
		s.give(end, 0)
		return true
	}
	size += len("\r\n")
	headers := 0
	if isHMsg {
		if headers, to, ok = lastNumber(to); !ok || headers > size {
			s.give(end, size)
			return true
		}
	}
	switch {
	case headers > protocol.MaxHeaderBytes:
		s.replace(bridge.TooManyHeaders, to, end, size)
	case s.mustShed(size):
		s.replace(bridge.TooManyBytes, to, end, size)
	case len(s.in) < end+headers:
		return false
	case bytes.Count(s.in[end:end+headers], []byte{'\n'}) > protocol.MaxHeaderLines+2: // the first line and the empty one
		s.replace(bridge.TooManyHeaders, to, end, size)
	default:
		s.give(end, size)
	}
	return true
}

// mustShed is whether a message of that size has to be left out.
func (s *sieve) mustShed(size int) bool {
	if s.behind == nil || size < sieveLarge {
		return false
	}
	if s.large += size; s.sheds || s.large >= sieveAsk {
		s.large, s.sheds = 0, s.behind(s.info, size)
	}
	return s.sheds
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

// replace puts a message that consists of a header block in the place of another one;
// to is its control line without the sizes.
func (s *sieve) replace(block string, to []byte, looked, behind int) {
	s.pass = fmt.Appendf(nil, "HMSG %s%d %d\r\n%s\r\n", to[bytes.IndexByte(to, ' ')+1:], len(block), len(block), block)
	s.in, s.skip = s.in[looked:], behind
}
