package codec

import (
	"slices"
	"strconv"

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

// appendPushed appends what became of one item.
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

// AppendPubAcks appends the answer to a bundle.
func AppendPubAcks(b []byte, queue string, pushed []fdbpq.Pushed) []byte {
	b = append(b, `{"type":"`+protocol.PushResponseType+`","stream":"`...)
	b = append(b, subjects.Own(queue)...)
	b = append(b, `","seq":`...)
	b = strconv.AppendInt(b, pushed[len(pushed)-1].Seq, 10)
	if !slices.ContainsFunc(pushed, func(p fdbpq.Pushed) bool { return !p.Duplicate }) {
		b = append(b, `,"duplicate":true`...)
	}
	b = append(b, `,"items":[`...)
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
