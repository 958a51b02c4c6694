package client

import (
	"context"
	"fmt"
	"strconv"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nuid"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// NewItem is an item of a [Queue.PushMany].
type NewItem struct {
	Payload []byte
	Options []PushOption
}

// PushMany adds up to [MaxMany] items to the queue in one message, in their order, and returns when all of them are
// durable, with a result for each. With an error no item was added, except after [ErrUnknownResult]. [Error.Item]
// says which item an error is about.
//
// Like [Queue.Push] it is repeated until it is answered, and its items are added once. [MsgID] gives an item an id
// of its own. If one item has the option [WithoutMsgID], the others have no ids either, unless they have their own.
//
// All items and their headers have to fit into one message of the NATS server.
func (q *Queue) PushMany(ctx context.Context, items ...NewItem) ([]Pushed, error) {
	if len(items) == 0 {
		return nil, nil
	}
	to, err := q.subject(subjects.Subject{Verb: subjects.Push})
	if err != nil {
		return nil, err
	}
	r := &call{op: "push", queue: q.name, subject: to, header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(items))}}}
	id := bundle(r, items)
	m, err := q.client.do(ctx, r)
	if err != nil {
		return nil, err
	}
	results, err := readResults(m.Data)
	if err != nil || len(results) != len(items) {
		return nil, unreadable("push", q.name, m.Data, err)
	}
	all := make([]Pushed, len(items))
	for i, p := range results {
		own := id == madeID && r.sent > 1 // the duplicate may be our own earlier attempt
		all[i] = Pushed{ID: p.ID, Seq: uint64(p.Seq), Priority: p.Priority, Duplicate: p.Duplicate && !own, Evicted: p.Evicted}
	}
	return all, nil
}

// MaxMany is how many items or settlements one message has at most.
const MaxMany = protocol.MaxBundle

// bundle writes the items into the body of a push, and gives it an id if it needs one.
func bundle(r *call, items []NewItem) msgID {
	var headers []byte
	id := givenID
	for i := range items {
		p := push{header: make(nats.Header), once: true}
		for _, opt := range items[i].Options {
			opt(&p)
		}
		switch {
		case p.header.Get(protocol.HeaderMsgID) != "":
		case !p.once:
			id = noID
		case id == givenID:
			id = madeID
		}
		headers = headers[:0]
		if p.priority != nil {
			headers = fmt.Appendf(headers, "%s: %d\n", protocol.HeaderPriority, *p.priority)
		}
		headers = protocol.AppendHeaders(headers, p.header)
		r.body = protocol.AppendFrame(r.body, headers, items[i].Payload)
	}
	if id == madeID {
		r.header.Set(protocol.HeaderMsgID, nuid.Next())
	}
	r.repeatable = id != noID
	return id
}
