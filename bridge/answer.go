package bridge

import (
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// answerPop answers a pop or a peek with what it found.
func (l *lane) answerPop(r *pop) {
	if f := r.Failure; f != nil {
		l.Refuse(&r.Request, f)
		return
	}
	items := r.found
	for i := range items {
		l.answerItem(r, &items[i], r.ready+int64(len(items)-1-i))
	}
	if r.ask.batch {
		l.Publish(&nats.Msg{Subject: r.Msg.Reply, Header: endOfBatch})
	}
	l.Done(&r.Request, nil)
}

var endOfBatch = nats.Header{
	protocol.HeaderStatus:      {protocol.StatusEndOfBatch},
	protocol.HeaderDescription: {protocol.DescriptionEndOfBatch},
}

// answerItem sends one item. A leased one that cannot be sent is given back.
func (l *lane) answerItem(r *pop, item *fdbpq.Item, behind int64) {
	w := &l.header
	w.reset()
	m := nats.Msg{Subject: r.Msg.Reply, Header: w.fields, Data: item.Payload}
	if lease := item.Lease; lease != nil {
		w.token = l.sealer.append(w.token[:0], lease, &r.ask, r.leased)
		w.text = l.grammar.AppendAck(w.text, r.Subject.Queue, l.sealer.conn, w.token)
		w.end(protocol.HeaderAck)
		w.text = appendTime(w.text, lease.Expires)
		w.end(protocol.HeaderLeaseExpires)
		w.text = strconv.AppendInt(w.text, lease.Fence, 10)
		w.end(protocol.HeaderFence)
	}
	w.item(item)
	w.text = strconv.AppendInt(w.text, max(0, behind), 10)
	w.end(protocol.HeaderNumPending)
	w.finish()
	if item.Lease != nil {
		m.Reply = w.fields[protocol.HeaderAck][0]
	}
	addHeaders(w.fields, item.Headers)
	if !l.Publish(&m) && item.Lease != nil {
		l.giveBack(*item.Lease)
	}
}
