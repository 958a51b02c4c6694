package client

import (
	"context"
	"encoding/json"
	"fmt"
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

	Progress   string    // what the last holder that said anything has said of how far it is
	ProgressAt time.Time // when it did; zero: not known

	Unique      string // [ErrOccupied] if another item has this value; without an ID the result is a duplicate then
	UniqueUntil string // [UntilLeased], or ""

	ResultTTL time.Duration // for how long the queue keeps what becomes of the item; 0: not at all
	Cost      int64         // of a delivery; 0: 1
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
	setHeaders(header, i)
	if len(i.Attempts) > 0 {
		text, err := json.Marshal(i.Attempts)
		if err != nil {
			return nil, err
		}
		header.Set(protocol.HeaderAttempts, string(text))
	}
	m := &nats.Msg{Subject: to, Data: i.Payload, Header: header}
	return q.client.send(ctx, &pushCall{client: q.client, op: "import", queue: q.name, msg: m, id: givenID})
}

func setText(header nats.Header, key, text string) {
	if text != "" {
		header.Set(key, text)
	}
}

func setNumber[T int | int64 | uint64](header nats.Header, key string, n T) {
	if n > 0 {
		header.Set(key, fmt.Sprint(n))
	}
}

func setDuration(header nats.Header, key string, d time.Duration) {
	if d > 0 {
		header.Set(key, d.String())
	}
}

func setTime(header nats.Header, key string, t time.Time) {
	if !t.IsZero() {
		header.Set(key, t.UTC().Format(time.RFC3339Nano))
	}
}
