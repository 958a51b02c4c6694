package codec

import (
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// maxResult is the size of what an answer says about one item of a bundle.
var maxResult = len(`{"seq":,"duplicate":true,"id":"","priority":,"evicted":true},`) + maxIDText + 2*maxNumberText

// readBundleSize reads how many requests a message says that it has.
func readBundleSize(values []string) (int, *failure.Failure) {
	value, f := single(protocol.HeaderBundle, values)
	if f != nil {
		return 0, f
	}
	n, f := ParseInteger(protocol.HeaderBundle, value, 1, maxNumber)
	switch {
	case f != nil:
		_, f = ParseInteger(protocol.HeaderBundle, value, 1, protocol.MaxBundle)
	case n > protocol.MaxBundle:
		f = failure.Newf(413, "%s is %d: allowed are %d", protocol.HeaderBundle, n, protocol.MaxBundle)
	}
	return int(n), f
}

// Bundle is a bundle of pushes whose items are not read yet.
type Bundle struct {
	Len     int // items, as it says itself
	wire    *Wire
	subject *subjects.Subject
	id      string
	frames  []byte
}

// OpenBundle reads the few headers that a bundle has itself. size is the one that says how many
// items it has. Items takes as long as they are many, so it is a step of its own.
func (w *Wire) OpenBundle(s *subjects.Subject, m *nats.Msg, size []string) (*Bundle, *failure.Failure) {
	n, f := readBundleSize(size)
	if f != nil {
		return nil, f
	}
	id, f := readBundleHeaders(s.Queue, m.Header)
	if f != nil {
		return nil, f
	}
	if most := w.Limit.MaxPayload() / maxResult; n > most {
		return nil, failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most)
	}
	return &Bundle{Len: n, wire: w, subject: s, id: id, frames: m.Data}, nil
}

// Items reads the items of the bundle.
func (b *Bundle) Items() ([]fdbpq.NewItem, *failure.Failure) {
	items, rest, lines := make([]fdbpq.NewItem, b.Len), b.frames, newFrameLines()
	for i := range items {
		var f *failure.Failure
		item := &items[i]
		if rest, f = b.wire.readFrame(b.subject, item, lines, rest); f != nil {
			return nil, f.OfItem(i)
		}
		if item.MsgID == "" && b.id != "" {
			item.MsgID = b.id + idInBundle + strconv.Itoa(i)
		}
	}
	if len(rest) > 0 {
		return nil, failure.Newf(400, "%d bytes follow item %d: expected %d items, as %s says", len(rest), b.Len-1, b.Len, protocol.HeaderBundle)
	}
	if err := fdbpq.CheckPushSize(b.subject.Queue, items); err != nil {
		return nil, failure.Explain(err)
	}
	return items, nil
}

// idInBundle stands between the id of a bundle and the number of an item. No header has
// it, so an item's own id cannot look like that.
const idInBundle = "\n"

// maxBundleID leaves room for the number of an item in its id.
var maxBundleID = fdbpq.MaxMsgID - len(idInBundle) - len(strconv.Itoa(protocol.MaxBundle-1))

// readBundleHeaders returns the bundle's id. Headers of items are in their frames.
func readBundleHeaders(queue string, header nats.Header) (id string, f *failure.Failure) {
	for key, values := range header {
		switch {
		case key == protocol.HeaderBundle:
		case key == protocol.HeaderMsgID:
			if id, f = readMsgID(values); f == nil && len(id) > maxBundleID {
				f = failure.Newf(400, "%s of a bundle has %d bytes: allowed are %d", key, len(id), maxBundleID)
			}
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			f = failure.Newf(400, "header %s of a bundle: expected it among the headers of each item that it is for", failure.Quote(key))
		default:
			_, f = travelsWithItem(key, values, queue)
		}
		if f != nil {
			return "", f
		}
	}
	return id, nil
}

// readFrame reads the next item of the rest of a bundle. lines is memory for its headers.
func (w *Wire) readFrame(s *subjects.Subject, item *fdbpq.NewItem, lines *frameLines, rest []byte) ([]byte, *failure.Failure) {
	headers, payload, rest, err := protocol.NextFrame(rest)
	if err != nil {
		return nil, failure.BadRequest(err)
	}
	*item = fdbpq.NewItem{Payload: payload, Priority: s.Priority, HasPriority: s.HasPriority}
	if len(headers) > 0 {
		if f := lines.read(headers); f != nil {
			return nil, f
		}
		h := itemHeaders{Wire: w, subject: s, item: item}
		if f := h.readAll(lines.header); f != nil {
			return nil, f
		}
	}
	return rest, w.Limit.Admit(payload, item.Headers, item.Key, item.Unique, 0, nil)
}

// frameLines are the header lines of one item of a bundle after another, in the same memory: a thousand items
// of a few bytes may have a quarter of a million of them.
type frameLines struct {
	header nats.Header
	free   [][]string // values that the items before had
}

func newFrameLines() *frameLines { return &frameLines{header: make(nats.Header)} }

// read reads the lines of the next item.
func (l *frameLines) read(lines []byte) *failure.Failure {
	if len(lines) > protocol.MaxHeaderBytes {
		return failure.Newf(413, "the headers have %d bytes: allowed are %d", len(lines), protocol.MaxHeaderBytes)
	}
	for _, values := range l.header {
		l.free = append(l.free, values[:0])
	}
	clear(l.header)
	for n := 0; len(lines) > 0; n++ {
		if n == protocol.MaxHeaderLines {
			return failure.Newf(413, "there are more headers than %d, which are allowed", n)
		}
		name, value, rest, err := protocol.NextHeader(lines)
		if err != nil {
			return failure.BadRequest(err)
		}
		if f := checkHeaderValue(name, value); f != nil {
			return f
		}
		values, known := l.header[name]
		if last := len(l.free) - 1; !known && last >= 0 {
			values, l.free = l.free[last], l.free[:last]
		}
		l.header[name] = append(values, value)
		lines = rest
	}
	return nil
}
