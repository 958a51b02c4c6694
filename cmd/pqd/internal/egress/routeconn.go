package egress

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"net"
	"slices"
	"time"
)

// routeConn is the connection of a route. It looks at each message that the server sends there.
type routeConn struct {
	net.Conn
	requests *Requests

	// sheds reports whether to replace a large request. written is how many bytes the server has written that still count as
	// held by it, those of the request included: it counts them when it has written all that it held.
	sheds func(written int64) bool

	written int64
	held    []byte // the begin of a line whose end is missing
	out     []byte // goes to the other node before all else
	rest    int    // following bytes that are passed on as they are
	skip    int    // following bytes to leave out
}

// lineMost is how long a line of a message may be. A longer line is of another kind.
const lineMost = 64 << 10

// Write implements net.Conn. What it has taken reaches the other node before what the next call takes, even if the connection
// takes nothing for a while: the server then writes the rest again.
func (c *routeConn) Write(p []byte) (int, error) {
	n, err := c.write(p)
	c.written += int64(n)
	return n, err
}

func (c *routeConn) write(p []byte) (int, error) {
	if err := c.send(nil); err != nil {
		return 0, err
	}
	from := 0 // bytes before it are on their way, or left out
	for at := 0; at < len(p); {
		switch {
		case c.rest > 0:
			n := min(c.rest, len(p)-at)
			at, c.rest = at+n, c.rest-n
			continue
		case c.skip > 0:
			n := min(c.skip, len(p)-at)
			at, c.skip = at+n, c.skip-n
			from = at
			continue
		}
		length := bytes.IndexByte(p[at:], '\n') + 1
		if length == 0 {
			if err := c.send(p[from:at]); err != nil {
				return at, err
			}
			c.hold(p[at:])
			return len(p), nil
		}
		begins, ends := at, at+length
		line := p[begins:ends]
		if len(c.held) > 0 {
			line = append(c.held, line...)
			c.held, from = nil, ends
		}
		at = ends
		size, instead := c.requests.look(line, func(size int) bool { return c.sheds(c.written + int64(ends-len(line)+size)) })
		switch {
		case instead != nil:
			if from < begins {
				c.out = append(c.out, p[from:begins]...)
			}
			c.out, c.skip, from = append(c.out, instead...), size, ends
		case from == ends: // it began in an earlier call
			c.out, c.rest = append(c.out, line...), size
		default:
			c.rest = size
		}
	}
	return len(p), c.send(p[from:])
}

// hold keeps the begin of a line until the rest comes.
func (c *routeConn) hold(begin []byte) {
	c.held = append(c.held, begin...)
	if len(c.held) > lineMost {
		c.out, c.held = append(c.out, c.held...), nil
	}
}

// send sends what waits, and p behind it. What it could not send waits.
func (c *routeConn) send(p []byte) error {
	if len(c.out) > 0 {
		p = append(c.out, p...)
		c.out = nil
	}
	if len(p) == 0 {
		return nil
	}
	n, err := c.Conn.Write(p)
	if err != nil {
		c.out = slices.Clone(p[n:])
	}
	return err
}

// SetWriteDeadline implements net.Conn. The server takes its deadline away when it has written all that it held.
func (c *routeConn) SetWriteDeadline(t time.Time) error {
	if t.IsZero() {
		c.written = 0
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close implements net.Conn. With TLS it may take seconds; the server waits for no connection of that type, but would for this
// one.
func (c *routeConn) Close() error {
	if _, is := c.Conn.(*tls.Conn); is {
		go func() { _ = c.Conn.Close() }() // nothing is done about a connection that does not close
		return nil
	}
	return c.Conn.Close()
}

// Requests says which messages on a route are requests to the bridge of the active node, and what takes the place of a large one.
type Requests struct {
	Account  string
	Prefixes []string // of their subjects, with the dot
	Group    string   // the queue group of bridges
	Large    int      // the least size of one that is replaced
	Instead  string   // a header block
}

// look reads a line that a server sends on a route. It returns how many bytes of a message follow, and what takes the place of
// line and message; nil: nothing does. A message that would end the route is left out, see [Splits]. sheds is asked about large
// requests alone, with the size of line and message.
func (r *Requests) look(line []byte, sheds func(size int) bool) (size int, instead []byte) {
	sizes := 1 // at the end of the line
	switch {
	case bytes.HasPrefix(line, []byte("RMSG ")):
	case bytes.HasPrefix(line, []byte("HMSG ")), bytes.HasPrefix(line, []byte("LMSG ")):
		sizes = 2
	default:
		return 0, nil
	}
	size, to, ok := LastNumber(line)
	if !ok {
		return 0, nil
	}
	size += len("\r\n")
	if Splits(to) {
		return size, []byte{}
	}
	if size < r.Large {
		return size, nil
	}
	if sizes == 2 {
		if _, to, ok = LastNumber(to); !ok {
			return size, nil
		}
	}
	if !r.has(Fields(to)) || !sheds(len(line)+size) {
		return size, nil
	}
	kind := "HMSG" // an RMSG has no headers
	if line[0] == 'L' {
		kind = "LMSG"
	}
	return size, fmt.Appendf(nil, "%s%s%d %[3]d\r\n%s\r\n", kind, to[len(kind):], len(r.Instead), r.Instead)
}

// has reports whether the fields of a line, without sizes, are those of a request. A message to one queue group has the
// kind, with LMSG the cluster from which it comes, the account, the subject, "|" or "+" with the reply subject, and the
// group.
func (r *Requests) has(fields [][]byte) bool {
	if string(fields[0]) == "LMSG" {
		fields = fields[1:]
	}
	switch {
	case len(fields) == 5 && string(fields[3]) == "|":
	case len(fields) == 6 && string(fields[3]) == "+":
	default:
		return false
	}
	return string(fields[1]) == r.Account && string(fields[len(fields)-1]) == r.Group &&
		slices.ContainsFunc(r.Prefixes, func(prefix string) bool { return bytes.HasPrefix(fields[2], []byte(prefix)) })
}

// Fields returns the fields of a line of the protocol between clients and servers, which split it at spaces and tabs. Other spaces
// are parts of subjects.
func Fields(line []byte) [][]byte {
	return bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' })
}

// Splits reports whether a subject on a line, without its end, has a carriage return. A server takes it from a client as a part of the
// subject, and who reads the server's line splits it there, finds a field too many, and ends the connection.
func Splits(line []byte) bool { return bytes.IndexByte(line, '\r') >= 0 }

// LastNumber reads the number at the end of a line of the protocol between clients and servers, and returns the line before
// it, with the space.
func LastNumber(line []byte) (n int, before []byte, ok bool) {
	line = bytes.TrimRight(line, " \t\r\n")
	at := len(line)
	for unit := 1; at > 0 && line[at-1] >= '0' && line[at-1] <= '9' && unit <= 1e9; unit *= 10 {
		at--
		n += unit * int(line[at]-'0')
	}
	return n, line[:at], at < len(line) && at > 0 && line[at-1] == ' '
}
