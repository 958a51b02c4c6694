package codec

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// expectedOfPush are the names of our headers of a push in a sentence.
var expectedOfPush = func() string {
	var names []string
	for i := range protocol.PushHeaders {
		if name := protocol.PushHeaders[i].Name; strings.HasPrefix(name, protocol.HeaderPrefix) {
			names = append(names, name)
		}
	}
	return choice(names)
}()

// itemHeaders reads the headers of a pushed item.
type itemHeaders struct {
	*Wire
	subject *subjects.Subject
	item    *fdbpq.NewItem
	delayed bool // a header says after which time the item is ready
	dated   bool // a header says when
}

// ReadPush reads the item of a push.
func (w *Wire) ReadPush(s *subjects.Subject, m *nats.Msg) (item fdbpq.NewItem, f *failure.Failure) {
	item = fdbpq.NewItem{Payload: m.Data, Priority: s.Priority, HasPriority: s.HasPriority}
	if len(m.Header) > 0 {
		h := itemHeaders{Wire: w, subject: s, item: &item}
		if f := h.readAll(m.Header); f != nil {
			return item, f
		}
	}
	return item, w.Limit.Admit(m.Data, item.Headers, item.Key, shownOfPushed(&item), 0, nil)
}

// readAll reads the headers of an item, of a message of its own or in a bundle.
func (h *itemHeaders) readAll(header nats.Header) *failure.Failure {
	for key, values := range header {
		if f := h.read(key, values); f != nil {
			return f
		}
	}
	return h.end()
}

// read reads one header, with all its values.
func (h *itemHeaders) read(key string, values []string) (f *failure.Failure) {
	switch {
	case strings.HasPrefix(key, protocol.HeaderPrefix):
		return h.readOurs(key, values)
	case key == protocol.HeaderMsgID:
		h.item.MsgID, f = readMsgID(values)
		return f
	}
	travels, f := travelsWithItem(key, values, h.subject.Queue)
	if travels {
		h.item.Headers, f = appendHeader(h.item.Headers, key, values)
	}
	return f
}

// end refuses headers that contradict each other.
func (h *itemHeaders) end() *failure.Failure {
	if h.delayed && h.dated {
		return failure.Newf(400, "%s together with %s: expected one of them", protocol.HeaderDelay, protocol.HeaderNotBefore)
	}
	if h.item.Weight != 0 && h.item.Key == "" {
		return failure.Newf(400, "%s without %s: expected the key that it is about", protocol.HeaderWeight, protocol.HeaderKey)
	}
	if h.item.Unique == "" && (h.item.OnConflict != "" || h.item.UniqueUntilLeased) {
		return failure.Newf(400, "%s or %s without %s: expected the value that they are about", protocol.HeaderOnConflict, protocol.HeaderUniqueUntil, protocol.HeaderUnique)
	}
	return nil
}

// readOurs reads a header of ours. Those of answers are no mistake: items are forwarded as they are.
func (h *itemHeaders) readOurs(key string, values []string) *failure.Failure {
	switch {
	case isPush(key):
	case isShown(key), key == protocol.HeaderReason:
		return nil
	default:
		return failure.Newf(400, "header %s is none of a push: expected %s", failure.Quote(key), expectedOfPush)
	}
	value, f := single(key, values)
	if f != nil {
		return f
	}
	if known, f := readPushed(h.item, key, value); known {
		return f
	}
	switch key {
	case protocol.HeaderPriority:
		priority, err := subjects.ParsePriority(value)
		if err != nil {
			return failure.BadRequest(err)
		}
		if h.subject.HasPriority && priority != h.subject.Priority {
			return failure.Newf(400, "%s is %d, the subject says %d: expected the same or one of them", key, priority, h.subject.Priority)
		}
		h.item.Priority, h.item.HasPriority = priority, true
	case protocol.HeaderDelay:
		h.delayed = true
		h.item.Delay, f = ReadDuration(key, value, 0, fdbpq.MaxDelay)
	case protocol.HeaderSettle:
		h.item.HandOver, f = h.leaseOf(key, value)
	case protocol.HeaderNotBefore:
		h.dated = true
		if h.item.NotBefore, f = ParseTime(key, value); f != nil {
			return f
		}
		if time.Until(h.item.NotBefore) > fdbpq.MaxDelay {
			return failure.Newf(400, "%s is %s: expected a time within %s", key, failure.Quote(value), fdbpq.MaxDelay)
		}
	}
	return f
}

// leaseOf reads the lease that an ack subject settles, from a header.
func (w *Wire) leaseOf(key, subject string) (*fdbpq.Lease, *failure.Failure) {
	s, err := w.Grammar.Parse(subject)
	if err == nil && s.Verb == subjects.Ack {
		if lease, _, f := w.Sealer.Open(s.Queue, s.Token); f == nil {
			return &lease, nil
		}
	}
	return nil, failure.Newf(400, "%s is %s: expected the ack subject of a leased item, as %s said it, on the same store",
		key, failure.Quote(subject), protocol.HeaderAck)
}

// travelsWithItem reports whether a header without the prefix PQ- stays with an item of a
// queue.
func travelsWithItem(key string, values []string, queue string) (travels bool, f *failure.Failure) {
	if !strings.HasPrefix(key, "Nats-") {
		return key != protocol.HeaderStatus, nil
	}
	instead := func(ours string) (bool, *failure.Failure) {
		return false, failure.Newf(400, "header %s is not supported: %s", failure.Quote(key), ours)
	}
	switch {
	case key == nats.ExpectedStreamHdr:
		if queue = subjects.Own(queue); len(values) != 1 || values[0] != queue {
			return false, failure.Newf(400, "%s is %s: the queue is %s", key, failure.Quote(strings.Join(values, ", ")), queue)
		}
		return false, nil
	case strings.HasPrefix(key, "Nats-Expected-"):
		return instead("a queue has no stream sequence; to push once use " + protocol.HeaderMsgID)
	case key == "Nats-TTL":
		return instead("use " + protocol.HeaderTTL + ", such as 1h")
	case strings.HasPrefix(key, "Nats-Schedule"):
		return instead("use " + protocol.HeaderDelay + ", such as 30s, or " + protocol.HeaderNotBefore + ", a time such as 2030-01-02T15:04:05Z")
	case key == protocol.HeaderTimeStamp, strings.HasPrefix(key, micro.ErrorHeader):
		return false, nil // an answer's
	case strings.HasPrefix(key, "Nats-Trace-"):
		return false, nil // about the message, and the server would act on it again
	case key == "Nats-Request-Info":
		return false, nil // who pushed, from where: a server's word to the bridge
	}
	return true, nil
}

// AppendPubAck appends a protocol.PushResponse, without an allocation.
func AppendPubAck(b []byte, queue string, p *fdbpq.Pushed) []byte {
	b = append(b, `{"type":"`+protocol.PushResponseType+`","stream":"`...)
	b = append(b, subjects.Own(queue)...) // of A-Z a-z 0-9 - _
	b = append(b, `",`...)
	b = appendPushed(b, p)
	return append(b, '}')
}

// appendPushed appends the result of one item.
func appendPushed(b []byte, p *fdbpq.Pushed) []byte {
	b = append(b, `"seq":`...)
	b = strconv.AppendInt(b, p.Seq, 10)
	if p.Duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	b = append(b, `,"id":"`...)
	b = appendID(b, p.ID)
	b = append(b, `","priority":`...)
	b = strconv.AppendInt(b, p.Priority, 10)
	if p.Evicted {
		b = append(b, `,"evicted":true`...)
	}
	return b
}

func appendID(b []byte, id fdbpq.ID) []byte {
	b, _ = id.AppendText(b) // has no error to return
	return b
}

// AppendPubAcks appends the answer to a bundle that was pushed as a whole.
func AppendPubAcks(b []byte, queue string, pushed []fdbpq.Pushed) []byte {
	added := slices.ContainsFunc(pushed, func(p fdbpq.Pushed) bool { return !p.Duplicate })
	b = appendBundleHead(b, queue, pushed[len(pushed)-1].Seq, !added)
	for i := range pushed {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		b = appendPushed(b, &pushed[i])
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

func appendBundleHead(b []byte, queue string, seq int64, duplicate bool) []byte {
	b = append(b, `{"type":"`+protocol.PushResponseType+`","stream":"`...)
	b = append(b, subjects.Own(queue)...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, seq, 10)
	if duplicate {
		b = append(b, `,"duplicate":true`...)
	}
	return append(b, `,"items":[`...)
}

// PushResult is the result of an item of a bundle that was pushed item by item.
type PushResult struct {
	Failure *failure.Failure // why it was refused; nil: it was not
	Pushed  fdbpq.Pushed     // without its events
}

// ResultOf is the result of an item that was not refused.
func ResultOf(p *fdbpq.Pushed) PushResult {
	return PushResult{Pushed: fdbpq.Pushed{ID: p.ID, Seq: p.Seq, Priority: p.Priority, Duplicate: p.Duplicate, Evicted: p.Evicted}}
}

// AppendPushResults appends the answer to a bundle that was pushed item by item. If it would be too large with the
// texts of failures, it has the shorter texts of their statuses.
func (l *Limit) AppendPushResults(to []byte, queue string, results []PushResult) []byte {
	if all := appendPushResults(to, queue, results, true); len(all)-len(to) <= l.MaxPayload() {
		return all
	}
	return appendPushResults(to, queue, results, false)
}

func appendPushResults(b []byte, queue string, results []PushResult, texts bool) []byte {
	seq, added, known := int64(0), false, false
	for i := range results {
		if r := &results[i]; r.Failure == nil {
			seq, added, known = r.Pushed.Seq, added || !r.Pushed.Duplicate, known || r.Pushed.Duplicate
		}
	}
	b = appendBundleHead(b, queue, seq, known && !added)
	for i := range results {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, '{')
		if f := results[i].Failure; f != nil {
			b = appendRefused(b, f, texts)
		} else {
			b = appendPushed(b, &results[i].Pushed)
		}
		b = append(b, '}')
	}
	return append(b, ']', '}')
}

// appendRefused appends the reason against one item.
func appendRefused(b []byte, f *failure.Failure, texts bool) []byte {
	text := f.Describe()
	if texts {
		text = f.Text
	}
	refused := protocol.NewErrorResponse("", f.Code, text).Error
	refused.Reason = f.Reason
	body, _ := protocol.Marshal(refused) // numbers and strings always marshal
	return append(append(b, `"error":`...), body...)
}
