package codec

import (
	"slices"
	"strconv"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

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
