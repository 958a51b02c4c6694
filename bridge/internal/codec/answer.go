package codec

import (
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// HeaderWriter writes the headers of an answer with few allocations: the values are parts of one string, and all
// other memory is used again.
type HeaderWriter struct {
	fields nats.Header
	token  []byte
	text   []byte // all values, one behind the other
	keys   []string
	ends   []int // of the values in text
	values []string
}

// Reset begins an answer.
func (w *HeaderWriter) Reset() {
	if w.fields == nil {
		w.fields = make(nats.Header)
	}
	clear(w.fields)
	w.text, w.keys, w.ends, w.values = w.text[:0], w.keys[:0], w.ends[:0], w.values[:0]
}

// end makes what was appended to text since the last end the value of a key.
func (w *HeaderWriter) end(key string) {
	w.keys = append(w.keys, key)
	w.ends = append(w.ends, len(w.text))
}

// Item writes the headers that every item has.
func (w *HeaderWriter) Item(item *fdbpq.Item) {
	w.text = appendID(w.text, item.ID)
	w.end(protocol.HeaderID)
	w.number(protocol.HeaderPriority, item.Priority)
	w.known(protocol.HeaderKey, item.Key)
	w.number(protocol.HeaderDeliveries, item.Deliveries)
	w.time(protocol.HeaderTimeStamp, item.Pushed)
	if dead := item.Dead; dead != nil {
		w.known(protocol.HeaderDeadReason, headerLine(dead.Reason))
		w.known(protocol.HeaderOrigin, dead.Origin)
		w.known(protocol.HeaderOriginID, dead.OriginID)
		if !dead.At.IsZero() {
			w.time(protocol.HeaderDeadAt, dead.At)
		}
		if dead.Deliveries > 0 {
			w.number(protocol.HeaderDeadNumber, dead.Deliveries)
		}
	}
}

// headerLine is a text for a header. A text that is not UTF-8 or has control characters, as a reason from a program
// without a bridge may, is escaped.
func headerLine(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, unicode.IsControl) {
		return s
	}
	quoted := strconv.QuoteToASCII(s)
	return quoted[1 : len(quoted)-1]
}

func (w *HeaderWriter) string(key, value string) {
	w.text = append(w.text, value...)
	w.end(key)
}

// known writes a header unless its value is empty: requests refuse empty headers, and an answer may be sent again
// as a request.
func (w *HeaderWriter) known(key, value string) {
	if value != "" {
		w.string(key, value)
	}
}

// Lease writes the headers of a leased item, with the terms of its pop. The subject that settles it begins like the
// subject of the pop. A pop in two steps has the end of the lease in a header of its own.
func (w *HeaderWriter) Lease(wire *Wire, pop subjects.Subject, t Terms, confirms bool, lease *fdbpq.Lease) {
	w.token = wire.Sealer.Append(w.token[:0], lease, t)
	w.text = wire.Grammar.Of(pop).AppendAck(w.text, pop.Queue, wire.Sealer.Conn, w.token)
	w.end(protocol.HeaderAck)
	if confirms {
		w.time(protocol.HeaderConfirm, lease.Expires)
	} else {
		w.time(protocol.HeaderLeaseExpires, lease.Expires)
	}
	w.number(protocol.HeaderFence, lease.Fence)
	if lease.KeyFence > 0 {
		w.number(protocol.HeaderKeyFence, lease.KeyFence)
	}
}

// Asks writes for how long the queue keeps what becomes of the item, so that its holder knows whether anybody asks, and what its delivery
// costs. An item that does not ask is answered as if there were no results, and one that costs 1 as if there were no costs.
func (w *HeaderWriter) Asks(item *fdbpq.Item) {
	values := asked(item)
	values.each(w.string)
}

// Progress writes what a holder has said of how far it is, if there is room: its words must not make the item undeliverable.
func (w *HeaderWriter) Progress(item *fdbpq.Item, room *int) {
	if item.Progress != "" && w.optional(protocol.HeaderProgress, item.Progress, room) && !item.ProgressAt.IsZero() {
		w.optional(protocol.HeaderProgressAt, TimeText(item.ProgressAt), room)
	}
}

// Behind writes how many items are left behind the answered ones.
func (w *HeaderWriter) Behind(n int64) { w.number(protocol.HeaderNumPending, max(0, n)) }

// Stored writes the headers of an item in the store. display turns a store time into wall time.
func (w *HeaderWriter) Stored(item *fdbpq.StoredItem, display func(int64) time.Time) {
	w.Item(&item.Item)
	w.string(protocol.HeaderState, string(item.State))
	if item.WaitsFor != "" {
		w.string(protocol.HeaderWaitsFor, string(item.WaitsFor))
	}
	if item.State == fdbpq.StateReady && item.Key != "" {
		w.number(protocol.HeaderKeyAhead, int64(item.KeyAhead))
	}
	if item.Fence > 0 {
		w.number(protocol.HeaderFence, item.Fence)
	}
	if item.KeyFence > 0 {
		w.number(protocol.HeaderKeyFence, item.KeyFence)
	}
	if item.Expires != 0 {
		w.time(protocol.HeaderExpires, display(item.Expires))
	}
	values := shownOfStored(item)
	values.each(w.string)
	switch item.State {
	case fdbpq.StateLeased:
		if item.Held {
			w.string(protocol.HeaderHeld, "true")
		}
		if item.Due != 0 {
			w.time(protocol.HeaderLeaseExpires, display(item.Due))
		}
	case fdbpq.StateDelayed:
		w.time(protocol.HeaderNotBefore, display(item.Due))
	}
}

func (w *HeaderWriter) number(key string, n int64) {
	w.text = strconv.AppendInt(w.text, n, 10)
	w.end(key)
}

func (w *HeaderWriter) time(key string, t time.Time) {
	w.text = AppendTime(w.text, t)
	w.end(key)
}

// Finish returns the headers. The next answer uses their memory again, except the values.
func (w *HeaderWriter) Finish() nats.Header {
	text := string(w.text)
	at := 0
	for i, key := range w.keys {
		w.values = append(w.values, text[at:w.ends[i]])
		w.fields[key] = w.values[i : i+1 : i+1]
		at = w.ends[i]
	}
	return w.fields
}

// AppendLines appends the headers as lines of a frame, instead of Finish.
func (w *HeaderWriter) AppendLines(b []byte) []byte {
	at := 0
	for i, key := range w.keys {
		b = append(append(b, key...), ": "...)
		b = append(append(b, w.text[at:w.ends[i]]...), "\r\n"...)
		at = w.ends[i]
	}
	return b
}

// AppendTime appends a time as RFC 3339 has it.
func AppendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, time.RFC3339Nano)
}

// TimeText is a time as RFC 3339 has it.
func TimeText(t time.Time) string { return string(AppendTime(nil, t)) }

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
