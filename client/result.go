package client

import (
	"context"
	"strconv"
	"time"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Result is what became of an item whose push asked for that, see [ResultTTL].
type Result struct {
	Outcome    protocol.Finish // how the item ended
	Body       []byte          // what its holder said with the acknowledgement
	Dropped    bool            // the holder said something, and the queue had no room for it
	FinishedAt time.Time
	Deliveries int64
	Reason     string // why it is dead
	DeadLetter string // of a dead item: the queue that has it now
	Next       string // of an item handed over: the queue that has it now, or link:<name>
	NextID     string // its id in either
}

// Result returns what became of an item. The error is [ErrNotFound] for an unknown id: there never was such an item, or it ended without a
// result, or longer ago than that is kept, or by a purge. An item that has not ended is an [Error] with code 404 and [ReasonPending], or,
// if its push did not ask for a result, with code 409 and [ReasonUnkept].
func (q *Queue) Result(ctx context.Context, id string) (*Result, error) {
	subject, err := q.subject(subjects.Subject{Verb: subjects.Result, ID: id})
	if err != nil {
		return nil, err
	}
	m, err := q.client.do(ctx, &call{op: "result", queue: q.name, subject: subject})
	if err != nil {
		return nil, err
	}
	r := &Result{
		Outcome: protocol.Finish(m.Header.Get(protocol.HeaderOutcome)), Body: m.Data, Dropped: m.Header.Get(protocol.HeaderResult) == protocol.ResultDropped,
		Reason: m.Header.Get(protocol.HeaderDeadReason), DeadLetter: m.Header.Get(protocol.HeaderDeadLetter),
		Next: m.Header.Get(protocol.HeaderNext), NextID: m.Header.Get(protocol.HeaderNextID),
	}
	if r.FinishedAt, err = time.Parse(time.RFC3339Nano, m.Header.Get(protocol.HeaderFinishedAt)); err == nil {
		r.Deliveries, err = strconv.ParseInt(m.Header.Get(protocol.HeaderDeliveries), 10, 64)
	}
	if err != nil || r.Outcome == "" {
		return nil, unreadable("result", q.name, m.Data, err)
	}
	return r, nil
}
