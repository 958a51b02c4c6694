package codec

import (
	"bytes"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// checkHeaderName refuses a name that a message could not have.
func checkHeaderName(name string) *failure.Failure {
	bad := name == ""
	for i := range len(name) {
		c := name[i]
		bad = bad || c <= ' ' || c > '~' || strings.IndexByte(notInNames, c) >= 0
	}
	if bad {
		return failure.Newf(400, "header name %s: expected printable ASCII without spaces and without any of %s", failure.Quote(name), notInNames)
	}
	return nil
}

const notInNames = `"()/,:;<=>?@[\]{}`

// appendHeader appends a header to the block that is kept with an item: lines "key: value" that end in CR LF, as in
// a message. Every answer can carry the headers that it accepts.
func appendHeader(b []byte, key string, values []string) ([]byte, *failure.Failure) {
	if f := checkHeaderName(key); f != nil {
		return nil, f
	}
	size := 0
	for _, value := range values {
		size += lineOf(key, len(value))
	}
	b = slices.Grow(b, size)
	for _, value := range values {
		if f := checkHeaderValue(key, value); f != nil {
			return nil, f
		}
		b = append(append(b, key...), ": "...)
		b = append(append(b, value...), "\r\n"...)
	}
	return b, nil
}

// uncarried says why no message can carry the headers of an item. Such an item was pushed by a program without a
// bridge.
func uncarried(item *fdbpq.Item) *failure.Failure {
	for block := item.Headers; len(block) > 0; {
		line, rest, _ := bytes.Cut(block, []byte("\r\n"))
		name, _, is := bytes.Cut(line, []byte(": "))
		if f := checkHeaderName(string(name)); f != nil || !is {
			return failure.Newf(500, "item %s has the header %s, which no answer can carry; it was left in the queue", item.ID, failure.Quote(string(line)))
		}
		block = rest
	}
	return nil
}

// Headers are the headers of an item that a bridge has pushed.
func Headers(item *fdbpq.Item) nats.Header {
	headers := make(nats.Header)
	AddHeaders(headers, item.Headers)
	return headers
}

// Listed is an item as lists and exports show it, without its payload and without its attempts. display turns a store time into wall time.
func Listed(held *fdbpq.StoredItem, display func(int64) time.Time) *protocol.Listed {
	item := &protocol.Listed{
		ID:         held.ID.String(),
		Priority:   held.Priority,
		Key:        held.Key,
		State:      protocol.State(held.State),
		Deliveries: held.Deliveries,
		Endings:    protocol.Endings(held.Endings),
		Pushed:     held.Pushed.UTC(),
		Size:       held.Size,
		Held:       held.Held,
		Fence:      held.Fence,
		KeyFence:   held.KeyFence,
		Holder:     held.Holder,
		Attempts:   held.Attempts.Last(),
		Cause:      held.Cause,
		Dead:       Death(held.Dead),
	}
	if headers := Headers(&held.Item); protocol.ValidUTF8(headers) { // JSON would change others
		item.Headers = headers
	}
	if held.Due != 0 {
		item.Due = display(held.Due).UTC()
	}
	if held.Since != 0 {
		item.Since = display(held.Since).UTC()
	}
	if held.Expires != 0 {
		item.Expires = display(held.Expires).UTC()
	}
	values := shownOfStored(held)
	values.fill(item)
	return item
}

// Death describes a dead letter for lists and exports; nil for another item.
func Death(letter *fdbpq.DeadLetter) *protocol.Death {
	if letter == nil {
		return nil
	}
	d := protocol.Death(*letter)
	if !d.At.IsZero() {
		d.At = d.At.UTC()
	}
	return &d
}

// deadOf is the part of an import that says how the item became a dead letter.
func deadOf(i *fdbpq.Import) *fdbpq.DeadLetter {
	if i.Dead == nil {
		i.Dead = new(fdbpq.DeadLetter)
	}
	return i.Dead
}

// AddHeaders adds the headers of an item to the headers of its answer.
func AddHeaders(to nats.Header, block []byte) {
	rest := string(block)
	for rest != "" {
		line, after, _ := strings.Cut(rest, "\r\n")
		key, value, _ := strings.Cut(line, ": ")
		to[key] = append(to[key], value)
		rest = after
	}
}
