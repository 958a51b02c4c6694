package pops

import (
	"math"
	"strconv"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// delivery returns what did not reach its consumer.
type delivery struct {
	giveBack func(fdbpq.Lease) // returns an item
	sent     *listening.Sent   // the leases of bundles
}

// answers are the answers of a part to pops and peeks.
type answers struct {
	*desk.Desk
	delivery

	// Buffers.
	out    []byte
	lines  []byte
	header codec.HeaderWriter
}

// answerPop answers a pop or a peek with its items.
func (l *answers) answerPop(r *pop) {
	if f := r.Failure; f != nil {
		if r.gives != nil {
			r.gives.Refused(l.Desk, &r.Request, f)
		}
		if r.gone {
			l.Done(&r.Request, f)
			return
		}
		l.Refuse(&r.Request, f)
		return
	}
	if r.gives != nil {
		l.Done(&r.Request, r.gives.Answer(l.Desk, &r.Request))
		return
	}
	items := r.found
	if r.ask.Bundle {
		l.Done(&r.Request, l.answerBundle(r))
		return
	}
	if !r.ask.Batch && len(items) > 1 { // an earlier pop with this id was a batch
		l.giveBackAll(items[1:])
		items = items[:1]
	}
	for i := range items {
		if f := l.answerItem(r, &items[i], r.ready+int64(len(items)-1-i)); f != nil {
			l.giveBackAll(items[i:])
			l.Done(&r.Request, f)
			return
		}
	}
	if r.ask.Batch {
		l.Publish(&nats.Msg{Subject: r.Msg.Reply, Header: endOfBatch})
	}
	l.Done(&r.Request, nil)
}

// giveBackAll gives back items of an answer that was not sent, if they are leased.
func (l *answers) giveBackAll(items []fdbpq.Item) {
	for i := range items {
		if lease := items[i].Lease; lease != nil {
			l.giveBack(*lease)
		}
	}
}

var endOfBatch = nats.Header{
	protocol.HeaderStatus:      {protocol.StatusEndOfBatch},
	protocol.HeaderDescription: {protocol.DescriptionEndOfBatch},
}

// answerItem sends one item, or an error in its place.
func (l *answers) answerItem(r *pop, item *fdbpq.Item, behind int64) *failure.Failure {
	l.writeHeaders(r, item, behind)
	room := l.Limit.Left(&l.header, item.Size)
	l.header.Progress(item, &room)
	l.header.Endings(item, &room)
	l.header.Backoff(item.Lease, &room)
	m := nats.Msg{Subject: r.Msg.Reply, Header: l.header.Finish(), Data: item.Payload}
	if item.Lease != nil {
		m.Reply = m.Header[protocol.HeaderAck][0]
	}
	codec.AddHeaders(m.Header, item.Headers)
	return l.Responder.Answer(&r.Request, &m)
}

// writeHeaders writes the headers of an item that are not its own.
func (l *answers) writeHeaders(r *pop, item *fdbpq.Item, behind int64) {
	w := &l.header
	w.Reset()
	if item.Lease != nil {
		w.Lease(l.Wire, r.Subject, codec.Terms{End: r.ask.End, Band: r.ask.Band, Lease: r.leased}, r.confirms, item.Lease)
	}
	w.Item(item)
	w.Asks(item)
	w.Behind(behind)
}

// answerBundle sends the items of a pop or a peek in one message, or an error. Leased items that cannot be sent are
// given back.
func (l *answers) answerBundle(r *pop) *failure.Failure {
	l.out = l.out[:0]
	var leases []*fdbpq.Lease
	room := l.Limit.BundleLeft(r.Subject.Queue, r.found)
	for i := range r.found {
		item := &r.found[i]
		l.writeHeaders(r, item, r.ready+int64(len(r.found)-1-i))
		l.header.Progress(item, new(math.MaxInt)) // it has its room
		l.header.Endings(item, &room)
		l.header.Backoff(item.Lease, &room)
		l.lines = append(l.header.AppendLines(l.lines[:0]), item.Headers...)
		l.out = protocol.AppendFrame(l.out, l.lines, item.Payload)
		if item.Lease != nil {
			leases = append(leases, item.Lease)
		}
	}
	m := nats.Msg{Subject: r.Msg.Reply, Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(r.found))}}, Data: l.out}
	if len(leases) > 0 {
		m.Reply = string(l.Grammar.Of(r.Subject).AppendAck(nil, r.Subject.Queue, l.Sealer.Conn, []byte(l.sent.Add(leases))))
	}
	f := l.Responder.Answer(&r.Request, &m)
	if f != nil {
		l.giveBackAll(r.found)
	}
	return f
}
