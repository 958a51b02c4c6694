package codec

import (
	"slices"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// maxResult is the size of an item's result in the answer to a bundle. A refusal without a text of its own takes no
// more.
var maxResult = len(`{"seq":,"duplicate":true,"id":"","priority":,"evicted":true},`) + maxIDText + 2*maxNumberText

// readBundleSize reads the number of requests that a message announces.
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
	Len     int  // items, as it says itself
	Each    bool // is pushed or refused on its own; otherwise all are, or none
	wire    *Wire
	subject *subjects.Subject
	id      string
	frames  []byte
}

// OpenBundle reads the few headers of the bundle itself. size is the header with the number of items. Items may
// take long, so it is a step of its own.
func (w *Wire) OpenBundle(s *subjects.Subject, m *nats.Msg, size []string) (*Bundle, *failure.Failure) {
	n, f := readBundleSize(size)
	if f != nil {
		return nil, f
	}
	b := &Bundle{Len: n, wire: w, subject: s, frames: m.Data}
	if f := b.readHeaders(m.Header); f != nil {
		return nil, f
	}
	if most := w.Limit.MaxPayload() / maxResult; n > most {
		return nil, failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most)
	}
	return b, nil
}

// Items reads the items of a bundle that is pushed as a whole. A mistake in one of them is a failure of the bundle.
func (b *Bundle) Items() ([]fdbpq.NewItem, *failure.Failure) {
	items, f := b.read(func(i int, f *failure.Failure) *failure.Failure { return f.OfItem(i) })
	if f != nil {
		return nil, f
	}
	if err := fdbpq.CheckPushSize(b.subject.Queue, items); err != nil {
		return nil, failure.Explain(err)
	}
	return items, nil
}

// Apart reads the items of a bundle whose items are pushed one by one. refused has the reason against each refused
// item, nil for the others. A bundle whose frames cannot be told apart fails as a whole.
func (b *Bundle) Apart() (items []fdbpq.NewItem, refused []*failure.Failure, f *failure.Failure) {
	refused = make([]*failure.Failure, b.Len)
	items, f = b.read(func(i int, f *failure.Failure) *failure.Failure {
		refused[i] = f
		return nil
	})
	return items, refused, f
}

// read reads the items. It calls wrong with a mistake in one of them, and ends if wrong returns a failure.
func (b *Bundle) read(wrong func(i int, f *failure.Failure) *failure.Failure) ([]fdbpq.NewItem, *failure.Failure) {
	items, rest, lines := make([]fdbpq.NewItem, b.Len), b.frames, newFrameLines()
	for i := range items {
		headers, payload, left, err := protocol.NextFrame(rest)
		if err != nil {
			return nil, failure.BadRequest(err).OfItem(i)
		}
		item := &items[i]
		rest = left
		if f := b.wire.readFrame(b.subject, item, lines, headers, payload); f != nil {
			if f = wrong(i, f); f != nil {
				return nil, f
			}
		}
		if item.MsgID == "" && b.id != "" {
			item.MsgID = b.id + idInBundle + strconv.Itoa(i)
		}
	}
	return items, noFurtherFrames(rest, b.Len)
}

// noFurtherFrames refuses what follows the frames of a bundle.
func noFurtherFrames(rest []byte, n int) *failure.Failure {
	if len(rest) > 0 {
		return failure.Newf(400, "%d bytes follow item %d: expected %d items, as %s says", len(rest), n-1, n, protocol.HeaderBundle)
	}
	return nil
}

// idInBundle stands between the id of a bundle and the number of an item. No header has
// it, so an item's own id cannot look like that.
const idInBundle = "\n"

// maxBundleID leaves room for the number of an item in its id.
var maxBundleID = fdbpq.MaxMsgID - len(idInBundle) - len(strconv.Itoa(protocol.MaxBundle-1))

// setValue is the value of headers that only say that something is so.
const setValue = "true"

// readSet reads such a header.
func readSet(name string, values []string) (bool, *failure.Failure) {
	if slices.Equal(values, []string{setValue}) {
		return true, nil
	}
	return false, failure.Newf(400, "%s is %s: expected %s", name, failure.Quote(strings.Join(values, ", ")), setValue)
}

// readHeaders reads the headers of the bundle itself. The headers of items are in their frames.
func (b *Bundle) readHeaders(header nats.Header) (f *failure.Failure) {
	for key, values := range header {
		switch {
		case key == protocol.HeaderBundle:
		case key == protocol.HeaderEach:
			b.Each, f = readSet(key, values)
		case key == protocol.HeaderMsgID:
			if b.id, f = readMsgID(values); f == nil && len(b.id) > maxBundleID {
				f = failure.Newf(400, "%s of a bundle has %d bytes: allowed are %d", key, len(b.id), maxBundleID)
			}
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			f = failure.Newf(400, "header %s of a bundle: expected it among the headers of each item that it is for", failure.Quote(key))
		default:
			_, f = travelsWithItem(key, values, b.subject.Queue)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// readFrame reads an item of a bundle. lines is memory for its headers.
func (w *Wire) readFrame(s *subjects.Subject, item *fdbpq.NewItem, lines *frameLines, headers, payload []byte) *failure.Failure {
	*item = fdbpq.NewItem{Payload: payload, Priority: s.Priority, HasPriority: s.HasPriority}
	if len(headers) > 0 {
		if f := lines.read(headers); f != nil {
			return f
		}
		h := itemHeaders{Wire: w, subject: s, item: item}
		if f := h.readAll(lines.header); f != nil {
			return f
		}
	}
	return w.Limit.Admit(payload, item.Headers, item.Key, shownOfPushed(item), 0, nil)
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
