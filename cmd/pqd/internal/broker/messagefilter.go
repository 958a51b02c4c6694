package broker

import (
	"bytes"
	"fmt"
	"io"

	"github.com/pqbridge/pqbridge/bridge"
	"github.com/pqbridge/pqbridge/cmd/pqd/internal/egress"
	"github.com/pqbridge/pqbridge/protocol"
)

// messageFilter reads the embedded server's messages to the bridge. It replaces a message whose headers exceed the
// bridge's limits by a message without body and headers, with a status that makes the bridge refuse it. nats.go
// would parse all headers before the bridge could refuse them, on the goroutine that reads for the whole bridge. A
// hundred messages with 100,000 headers each kept that goroutine busy until the server closed the connection.
// Counting lines is a hundred times as fast.
//
// While the server holds too much for the bridge, the filter replaces large messages, too. Otherwise the server
// would close the bridge's connection when clients push more than the bridge can read. Skipping bytes is many times
// as fast as handing them to nats.go, which copies each message.
//
// It leaves out messages of a tenant that sends more than the bridge handles: the bridge refuses them by their
// subjects. Nobody can refuse a message whose line nats.go does not read (see [egress.Splits]): it is left out, too.
type messageFilter struct {
	from   io.Reader
	behind backlogCheck // nil: the server never holds too much
	floods floodCheck   // nil: no tenant sends more than the bridge handles
	shed   func()       // called when a message is replaced because the server holds too much; nil: nobody asks
	info   []byte       // the server's last INFO
	passed int          // bytes of messages since the last call of behind
	sheds  bool         // the result of that call

	base []byte // the whole buffer
	in   []byte // read, and not parsed yet: a part of base
	pass []byte // parsed, for the next Read
	rest int    // following bytes of from that Read returns unparsed
	skip int    // following bytes of from to leave out
	err  error  // that ended reading
}

// backlogCheck reports whether the server holds too much for the connection that the INFO describes, beside the
// message of that size which is being read.
type backlogCheck func(info []byte, size int) bool

// floodCheck refuses messages of tenants that send more than the bridge handles.
type floodCheck interface {
	// Any reports whether there may be such a tenant.
	Any() bool

	// Refuse refuses a message, and reports whether it did.
	Refuse(subject, reply string) bool

	// Headers counts the lines of headers of a message. With it its tenant may send more than the bridge handles.
	Headers(subject string, lines int)
}

const (
	// filterRead is the most bytes read at a time.
	filterRead = 64 << 10

	// filterHold is the most bytes held back: a control line and a header block.
	filterHold = protocol.MaxHeaderBytes + 8<<10

	// filterLarge is the least size of a message that is replaced under pressure.
	// Receiving a smaller one costs little more than refusing it.
	filterLarge = 8 << 10

	// filterLines is how many lines of headers a message has that nobody counts.
	filterLines = 8

	// filterAsk is how many bytes of messages pass between two calls of behind.
	filterAsk = 256 << 10
)

// Read implements io.Reader. It returns all bytes at hand, and blocks only when there
// are none.
func (f *messageFilter) Read(p []byte) (n int, err error) {
	for n < len(p) {
		switch {
		case len(f.pass) > 0:
			copied := copy(p[n:], f.pass)
			f.pass, n = f.pass[copied:], n+copied
		case f.rest > 0 && len(f.in) > 0:
			copied := copy(p[n:], f.in[:min(f.rest, len(f.in))])
			f.in, f.rest, n = f.in[copied:], f.rest-copied, n+copied
		case f.skip > 0 && len(f.in) > 0:
			skipped := min(f.skip, len(f.in))
			f.in, f.skip = f.in[skipped:], f.skip-skipped
		case f.rest == 0 && f.skip == 0 && f.next():
		case n > 0:
			return n, nil
		case f.err != nil:
			return 0, f.err
		case f.rest > 0:
			n, err = f.from.Read(p[:min(len(p), f.rest)])
			f.rest -= n
			return n, err
		default:
			f.fill()
		}
	}
	return n, nil
}

// fill reads more bytes behind the held bytes. If little room is left, it first moves the held bytes to the front
// of base. pass is empty then, so no other slice has the bytes that move.
func (f *messageFilter) fill() {
	if len(f.in) == 0 {
		f.in = f.base[:0]
	}
	if cap(f.in)-len(f.in) < filterRead/4 {
		if need := len(f.in) + filterRead; len(f.base) < need {
			f.in = append(make([]byte, 0, need), f.in...)
			f.base = f.in[:need]
		} else {
			f.in = f.base[:copy(f.base, f.in)]
		}
	}
	n, err := f.from.Read(f.in[len(f.in):cap(f.in)])
	f.in, f.err = f.in[:len(f.in)+n], err
}

// next decides whether the next message is passed on or replaced. It reports false if it needs more bytes to
// decide. It passes on everything that it does not know.
func (f *messageFilter) next() bool {
	end := bytes.IndexByte(f.in, '\n') + 1
	if end == 0 {
		if len(f.in) > filterHold {
			f.give(len(f.in), 0)
			return true
		}
		return false
	}
	line := f.in[:end]
	isMsg, isHMsg := bytes.HasPrefix(line, []byte("MSG ")), bytes.HasPrefix(line, []byte("HMSG "))
	if !isMsg && !isHMsg {
		if bytes.HasPrefix(line, []byte("INFO ")) {
			f.info = append(f.info[:0], line...)
		}
		f.give(end, 0)
		return true
	}
	size, to, ok := egress.LastNumber(line)
	if !ok {
		f.give(end, 0)
		return true
	}
	size += len("\r\n")
	headers := 0
	if isHMsg {
		if headers, to, ok = egress.LastNumber(to); !ok || headers > size {
			f.give(end, size)
			return true
		}
	}
	switch {
	case egress.Splits(to):
		f.in, f.skip = f.in[end:], size
	case f.floods != nil && f.floods.Any() && f.refuse(to):
		f.in, f.skip = f.in[end:], size
	case headers > protocol.MaxHeaderBytes:
		f.replace(bridge.TooManyHeaders, to, end, size)
	case f.mustShed(size):
		f.replace(bridge.TooManyBytes, to, end, size)
	case len(f.in) < end+headers:
		return false
	default:
		f.pick(to, end, size, bytes.Count(f.in[end:end+headers], []byte{'\n'}))
	}
	return true
}

// pick decides about a message by the lines of its header block.
func (f *messageFilter) pick(to []byte, end, size, lines int) {
	switch {
	case lines > protocol.MaxHeaderLines+2: // the first line and the empty one
		f.replace(bridge.TooManyHeaders, to, end, size)
	case lines > filterLines && f.floods != nil && f.floodBy(to, lines):
		f.in, f.skip = f.in[end:], size
	default:
		f.give(end, size)
	}
}

// floodBy counts the lines of a header block, and refuses the message if they make a flood.
func (f *messageFilter) floodBy(to []byte, lines int) bool {
	if fields := egress.Fields(to); len(fields) > 1 {
		f.floods.Headers(string(fields[1]), lines)
	}
	return f.floods.Any() && f.refuse(to)
}

// refuse makes the bridge refuse a message if its tenant sends too many; to is the message's control line without
// the sizes.
func (f *messageFilter) refuse(to []byte) bool {
	fields := egress.Fields(to) // MSG, subject, id of the subscription, reply subject
	switch len(fields) {
	case 3:
		return f.floods.Refuse(string(fields[1]), "")
	case 4:
		return f.floods.Refuse(string(fields[1]), string(fields[3]))
	}
	return false
}

// mustShed reports whether to replace a message of that size.
func (f *messageFilter) mustShed(size int) bool {
	if f.behind == nil {
		return false
	}
	large := size >= filterLarge
	if f.passed += size; f.passed >= filterAsk || f.sheds && large {
		f.passed, f.sheds = 0, f.behind(f.info, size)
	}
	if !f.sheds || !large {
		return false
	}
	if f.shed != nil {
		f.shed()
	}
	return true
}

// give passes on the bytes that were parsed, and the given number after them.
func (f *messageFilter) give(looked, behind int) {
	f.pass, f.in = f.in[:looked:looked], f.in[looked:]
	f.rest = behind
}

// replace puts a message that consists of a header block in the place of another one;
// to is its control line without the sizes.
func (f *messageFilter) replace(block string, to []byte, looked, behind int) {
	f.pass = fmt.Appendf(nil, "HMSG %s%d %d\r\n%s\r\n", to[bytes.IndexByte(to, ' ')+1:], len(block), len(block), block)
	f.in, f.skip = f.in[looked:], behind
}
