package main

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/client"
	"github.com/pqbridge/pqbridge/internal/screen"
	"github.com/pqbridge/pqbridge/protocol"
)

// item is an item as pop, peek, get, list and export write it, and import reads it.
type item struct{ protocol.Item }

// shown makes JSON of an item that was popped, peeked at or got.
func shown(from *client.Item) *item {
	i := &item{protocol.Item{
		Queue: from.Queue, ID: from.ID, Priority: from.Priority, Key: from.Key, State: from.State,
		Deliveries: int64(from.Deliveries), Pushed: from.Pushed,
		Ack: from.AckSubject(), Fence: from.Fence, KeyFence: from.KeyFence, Unique: from.Unique, UniqueUntil: from.UniqueUntil,
		Holder: from.Holder, Attempts: from.Attempts, LastAttempts: from.LastAttempts,
	}}
	if from.State != "" {
		i.Due, i.WaitsFor, i.KeyAhead = from.Due, from.WaitsFor, int64(from.KeyAhead)
	} else {
		i.LeaseExpires = from.LeaseExpires()
	}
	i.Dead = from.Dead
	i.SetHeaders(from.Header)
	i.SetPayload(from.Payload)
	return i
}

// listed makes JSON of an item of a list.
func listed(from *client.Listed) *item {
	i := &item{protocol.Item{
		ID: from.ID, Priority: from.Priority, Key: from.Key, State: from.State, Deliveries: int64(from.Deliveries),
		Pushed: from.Pushed, Due: from.Due, Expires: from.Expires, Size: from.Size,
		Fence: from.Fence, KeyFence: from.KeyFence, Dead: from.Dead, Unique: from.Unique, UniqueUntil: from.UniqueUntil,
		Holder: from.Holder, Attempts: from.Attempts, LastAttempts: from.LastAttempts,
	}}
	i.SetHeaders(from.Header)
	if from.Body != nil {
		i.SetPayload(from.Body)
	}
	return i
}

// describe writes everything about an item, for people.
func (i *item) describe() string {
	at := func(t time.Time) string { return fmt.Sprintf("%s (%s)", t.Local().Format(time.RFC3339), until(t)) }
	var f facts
	f.add("Id", "%s", i.ID)
	f.add("Queue", "%s", i.Queue)
	f.add("Priority", "%d", i.Priority)
	if i.Key != "" {
		f.add("Key", "%s", i.Key)
	}
	if i.State != "" {
		f.add("State", "%s", i.State)
	}
	if i.WaitsFor != "" {
		f.add("Waits for", "%s", i.WaitsFor)
	}
	if i.KeyAhead > 0 {
		f.add("Of its key before it", "%d", i.KeyAhead)
	}
	f.add("Pushed", "%s", at(i.Pushed))
	if !i.Due.IsZero() {
		f.add("Due", "%s", at(i.Due))
	}
	if i.Deliveries > 0 {
		f.add("Deliveries", "%d", i.Deliveries)
	}
	if i.Holder != "" {
		f.add("Held by", "%s", i.Holder)
	}
	if i.Attempts > 0 && i.LastAttempts == nil {
		f.add("Attempts", "%d", i.Attempts)
	}
	for _, a := range i.LastAttempts {
		f.add(fmt.Sprintf("Attempt %d", a.N), "%s, %s", at(a.End), attemptText(&a))
	}
	if d := i.Dead; d != nil {
		f.add("Dead", "%s", d.Reason)
		if !d.At.IsZero() {
			f.add("Died", "%s, after %s", at(d.At), deliveriesOf(d))
		}
		f.add("Origin", "%s %s", d.Origin, d.OriginID)
	}
	if i.Ack != "" {
		f.add("Leased until", "%s", at(i.LeaseExpires))
		f.add("Fence", "%d", i.Fence)
		if i.KeyFence > 0 {
			f.add("Key fence", "%d", i.KeyFence)
		}
		f.add("Settle with", "pq ack %s", i.Ack)
	}
	headers := i.AllHeaders()
	for _, key := range slices.Sorted(maps.Keys(headers)) {
		for _, value := range headers[key] {
			f.add("Header", "%s: %s", key, value)
		}
	}
	return f.String()
}

// attemptText says how an attempt ended.
func attemptText(a *client.Attempt) string {
	text := string(a.Outcome)
	if !a.Start.IsZero() {
		text += " after " + span(a.End.Sub(a.Start).Round(time.Millisecond))
	}
	text += heldBy(a.Holder)
	if a.Reason != "" {
		text += ": " + a.Reason
	}
	return text
}

// lastAttempt says how the last attempt of a listed item ended.
func lastAttempt(l *client.Listed) string {
	n := len(l.LastAttempts)
	if n == 0 {
		return ""
	}
	return screen.Visible(attemptText(&l.LastAttempts[n-1]))
}

func deliveriesOf(d *protocol.Death) string {
	if d.Deliveries == 1 {
		return "1 delivery"
	}
	return fmt.Sprintf("%d deliveries", d.Deliveries)
}

// line is a payload as lines of text have it: with a line feed at its end.
func line(payload []byte) []byte {
	if bytes.HasSuffix(payload, []byte("\n")) {
		return payload
	}
	return append(payload[:len(payload):len(payload)], '\n')
}
