package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/client"
)

// item is an item as JSON: what pop, peek, get, list and export write, and
// import reads.
type item struct {
	Queue        string        `json:"queue,omitempty"`
	ID           string        `json:"id,omitempty"`
	Priority     int64         `json:"priority"`
	State        client.State  `json:"state,omitempty"`
	Deliveries   int           `json:"deliveries,omitempty"`
	Pushed       time.Time     `json:"pushed,omitzero"`
	Due          time.Time     `json:"due,omitzero"` // when the lease ends, or the delay
	Expires      time.Time     `json:"expires,omitzero"`
	Size         int64         `json:"size,omitempty"`
	Headers      nats.Header   `json:"headers,omitempty"`
	Payload      *string       `json:"payload,omitempty"`        // when it is UTF-8
	Base64       []byte        `json:"payload_base64,omitempty"` // when it is not
	Ack          string        `json:"ack,omitempty"`
	LeaseExpires time.Time     `json:"lease_expires,omitzero"`
	Fence        uint64        `json:"fence,omitempty"`
	Dead         *client.Death `json:"dead,omitempty"`
}

// setPayload keeps a payload in the form that fits.
func (i *item) setPayload(payload []byte) {
	if utf8.Valid(payload) {
		i.Payload = new(string(payload))
	} else {
		i.Base64 = payload
	}
}

func (i *item) payload() []byte {
	if i.Payload != nil {
		return []byte(*i.Payload)
	}
	return i.Base64
}

// shown makes JSON of an item that was popped, peeked at or got.
func shown(from *client.Item) *item {
	i := &item{
		Queue: from.Queue, ID: from.ID, Priority: from.Priority, State: from.State,
		Deliveries: from.Deliveries, Pushed: from.Pushed, Headers: from.Header,
		Ack: from.AckSubject(), Fence: from.Fence,
	}
	if from.State != "" {
		i.Due = from.Due
	} else {
		i.LeaseExpires = from.LeaseExpires()
	}
	i.Dead = from.Dead
	i.setPayload(from.Payload)
	return i
}

// listed makes JSON of an item of a list.
func listed(from *client.Listed) *item {
	i := &item{
		ID: from.ID, Priority: from.Priority, State: from.State, Deliveries: from.Deliveries,
		Pushed: from.Pushed, Due: from.Due, Expires: from.Expires, Size: from.Size, Headers: from.Header,
		Fence: from.Fence, Dead: from.Dead,
	}
	if from.Body != nil {
		i.setPayload(from.Body)
	}
	return i
}

// describe writes all there is to say about an item, for people.
func (i *item) describe() string {
	at := func(t time.Time) string { return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), until(t)) }
	var f facts
	f.add("Id", "%s", i.ID)
	f.add("Queue", "%s", i.Queue)
	f.add("Priority", "%d", i.Priority)
	if i.State != "" {
		f.add("State", "%s", i.State)
	}
	f.add("Pushed", "%s", at(i.Pushed))
	if !i.Due.IsZero() {
		f.add("Due", "%s", at(i.Due))
	}
	if i.Deliveries > 0 {
		f.add("Deliveries", "%d", i.Deliveries)
	}
	if d := i.Dead; d != nil {
		f.add("Dead", "%s", d.Reason)
		f.add("Origin", "%s %s", d.Origin, d.OriginID)
	}
	if i.Ack != "" {
		f.add("Leased until", "%s", at(i.LeaseExpires))
		f.add("Fence", "%d", i.Fence)
		f.add("Settle with", "pq ack %s", i.Ack)
	}
	for _, key := range slices.Sorted(maps.Keys(i.Headers)) {
		for _, value := range i.Headers[key] {
			f.add("Header", "%s: %s", key, value)
		}
	}
	return f.String()
}

// line is a payload as lines of text have it: with a line feed at its end.
func line(payload []byte) []byte {
	if bytes.HasSuffix(payload, []byte("\n")) {
		return payload
	}
	return append(payload[:len(payload):len(payload)], '\n')
}
