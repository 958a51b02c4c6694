package client

import (
	"context"
	"encoding/json"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// Import is an item to be put back at its place, in its former queue or in a queue of another store, with its id
// and its history.
type Import struct {
	ID         string // may be "" for an item with a Unique value, which then gets the place behind all of its priority
	Priority   int64  // differs from the id's if the item was moved
	Key        string
	Payload    []byte
	Header     nats.Header
	Pushed     time.Time
	NotBefore  time.Time // zero: ready
	Expires    time.Time // zero: never
	Deliveries int       // deliveries that are neither Interruptions nor Returns were failures
	Endings
	Fence    uint64
	KeyFence uint64 // later leases of the key get higher fences
	Dead     *Death
	Attempts []Attempt // the oldest first

	Unique      string // [ErrOccupied] if another item has this value; without an ID the result is a duplicate then
	UniqueUntil string // [UntilLeased], or ""
}

// ImportAsync puts an item back at its place, and returns when the request was sent. The
// result is a duplicate if the item is there already. The client repeats an unanswered
// import, so pause the queue before: an item that a consumer popped in between would come
// back.
func (q *Queue) ImportAsync(ctx context.Context, i *Import) (*Future, error) {
	to, err := q.subject(subjects.Subject{Verb: subjects.Import})
	if err != nil {
		return nil, err
	}
	header := make(nats.Header, len(i.Header)+4)
	for key, values := range i.Header {
		header[key] = values
	}
	if i.ID != "" {
		header.Set(protocol.HeaderID, i.ID)
	}
	header.Set(protocol.HeaderPriority, strconv.FormatInt(i.Priority, 10))
	for key, t := range map[string]time.Time{protocol.HeaderTimeStamp: i.Pushed, protocol.HeaderNotBefore: i.NotBefore, protocol.HeaderExpires: i.Expires} {
		if !t.IsZero() {
			header.Set(key, t.UTC().Format(time.RFC3339Nano))
		}
	}
	numbers := map[string]int64{
		protocol.HeaderDeliveries: int64(i.Deliveries), protocol.HeaderFailures: i.Failures,
		protocol.HeaderInterruptions: i.Interruptions, protocol.HeaderReturns: i.Returns,
	}
	if i.Fence > 0 {
		header.Set(protocol.HeaderFence, strconv.FormatUint(i.Fence, 10))
	}
	if i.KeyFence > 0 {
		header.Set(protocol.HeaderKeyFence, strconv.FormatUint(i.KeyFence, 10))
	}
	if len(i.Attempts) > 0 {
		text, err := json.Marshal(i.Attempts)
		if err != nil {
			return nil, err
		}
		header.Set(protocol.HeaderAttempts, string(text))
	}
	texts := map[string]string{protocol.HeaderKey: i.Key, protocol.HeaderUnique: i.Unique, protocol.HeaderUniqueUntil: i.UniqueUntil}
	if d := i.Dead; d != nil {
		texts[protocol.HeaderDeadReason], texts[protocol.HeaderOrigin], texts[protocol.HeaderOriginID] = d.Reason, d.Origin, d.OriginID
		if !d.At.IsZero() {
			texts[protocol.HeaderDeadAt] = d.At.UTC().Format(time.RFC3339Nano)
		}
		numbers[protocol.HeaderDeadNumber], numbers[protocol.HeaderDeadInterruptions] = d.Deliveries, d.Interruptions
	}
	for key, n := range numbers {
		if n > 0 {
			header.Set(key, strconv.FormatInt(n, 10))
		}
	}
	for key, text := range texts {
		if text != "" {
			header.Set(key, text)
		}
	}
	m := &nats.Msg{Subject: to, Data: i.Payload, Header: header}
	return q.client.send(ctx, &pushCall{client: q.client, op: "import", queue: q.name, msg: m, id: givenID})
}
