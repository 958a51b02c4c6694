package bridge

import (
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// headerWriter writes the headers of an answer with few allocations: the
// values are parts of one string, and everything else is used again.
type headerWriter struct {
	fields nats.Header
	token  []byte
	text   []byte // all values, one behind the other
	keys   []string
	ends   []int // of the values in text
	values []string
}

func (w *headerWriter) reset() {
	if w.fields == nil {
		w.fields = make(nats.Header)
	}
	clear(w.fields)
	w.text, w.keys, w.ends, w.values = w.text[:0], w.keys[:0], w.ends[:0], w.values[:0]
}

// end makes what was appended to text since the last end the value of a key.
func (w *headerWriter) end(key string) {
	w.keys = append(w.keys, key)
	w.ends = append(w.ends, len(w.text))
}

// item writes the headers that every item has.
func (w *headerWriter) item(item *fdbpq.Item) {
	w.text = appendID(w.text, item.ID)
	w.end(protocol.HeaderID)
	w.text = strconv.AppendInt(w.text, item.Priority, 10)
	w.end(protocol.HeaderPriority)
	if item.Key != "" {
		w.string(protocol.HeaderKey, item.Key)
	}
	w.text = strconv.AppendInt(w.text, item.Deliveries, 10)
	w.end(protocol.HeaderDeliveries)
	w.text = appendTime(w.text, item.Pushed)
	w.end(protocol.HeaderTimeStamp)
	if dead := item.Dead; dead != nil {
		w.string(protocol.HeaderDeadReason, failure.HeaderText(dead.Reason))
		w.string(protocol.HeaderOrigin, dead.Origin)
		w.string(protocol.HeaderOriginID, dead.OriginID)
		if !dead.At.IsZero() {
			w.text = appendTime(w.text, dead.At)
			w.end(protocol.HeaderDeadAt)
		}
		if dead.Deliveries > 0 {
			w.text = strconv.AppendInt(w.text, dead.Deliveries, 10)
			w.end(protocol.HeaderDeadNumber)
		}
	}
}

func (w *headerWriter) string(key, value string) {
	w.text = append(w.text, value...)
	w.end(key)
}

// finish fills in the fields.
func (w *headerWriter) finish() {
	text := string(w.text)
	at := 0
	for i, key := range w.keys {
		w.values = append(w.values, text[at:w.ends[i]])
		w.fields[key] = w.values[i : i+1 : i+1]
		at = w.ends[i]
	}
}

// appendLines appends the headers as lines of a frame, instead of finish.
func (w *headerWriter) appendLines(b []byte) []byte {
	at := 0
	for i, key := range w.keys {
		b = append(append(b, key...), ": "...)
		b = append(append(b, w.text[at:w.ends[i]]...), "\r\n"...)
		at = w.ends[i]
	}
	return b
}

// appendTime appends a time as RFC 3339 has it.
func appendTime(b []byte, t time.Time) []byte {
	return t.UTC().AppendFormat(b, time.RFC3339Nano)
}

func timeText(t time.Time) string { return string(appendTime(nil, t)) }
