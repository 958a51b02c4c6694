package codec

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/link"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// maxLinkBytes bounds the content of a batch of a link: both sides move it in one transaction.
const maxLinkBytes = 4 << 20

// linkFrame bounds the headers of an answer of a link.
const linkFrame = 256

// ReadTake reads a taker's request to a link, and the pop that it means for the queue. most bounds the bytes of an
// answer by the payload that the taker's server carries; 0: the taker has not said it.
func ReadTake(m *nats.Msg, verb string) (ask link.Ask, p PopRequest, most int64, f *failure.Failure) {
	p = PopRequest{Terms: Terms{End: fdbpq.Min, Band: fdbpq.AllPriorities, Lease: 1}, Limit: fdbpq.MaxBatch, Bundle: true, MaxBytes: maxLinkBytes}
	if p.Wait, f = readWaitAlone(m.Header, verb); f != nil {
		return ask, p, most, f
	}
	f = ReadObject("the body", m.Data, "accept, batch, done, left, max, max_payload, next, part, taker", func(name string, value any) (known bool, f *failure.Failure) {
		switch name {
		case "taker":
			ask.Taker, f = ReadString(name, value)
		case "done":
			ask.Done, f = ReadInteger(name, value, 0, math.MaxInt64-1)
		case "batch":
			ask.Batch, f = ReadString(name, value)
		case "max":
			p.Limit, f = ReadLimit(name, value)
		case "accept":
			ask.Accept, f = ReadBool(name, value)
		case "max_payload":
			most, f = ReadInteger(name, value, 1, math.MaxInt64)
			ask.Parts = true
		case "left":
			ask.Left, f = readIntegers(name, value, 1, fdbpq.MaxBatch, fdbpq.MaxBatch)
		case "next":
			ask.Next, f = ReadString(name, value)
		case "part":
			var n int64
			n, f = ReadInteger(name, value, 0, fdbpq.MaxBatch)
			ask.Part = int(n)
		default:
			return false, nil
		}
		return true, f
	})
	return ask, p, most, f
}

// LinkPayload is how many bytes an answer of a link may have if the taker's server carries most; 0: the taker has
// not said it.
func (l *Limit) LinkPayload(most int64) int {
	if most == 0 {
		return l.MaxPayload()
	}
	return int(min(most, int64(l.MaxPayload())))
}

// LinkRoom bounds the items of a batch in an answer of this many bytes.
func LinkRoom(sel *fdbpq.Selection, payload int) {
	sel.Room = max(1, payload-bundleFrame-linkFrame)
}

// LinkFits reports whether an answer can carry this many bytes of items.
func LinkFits(body, payload int) bool { return body <= payload-bundleFrame-linkFrame }

// LinkHeader is the header of an answer of a link.
func LinkHeader(store string, given *link.Given) nats.Header {
	before := given.Before
	if before == "" {
		before = protocol.NoBatch
	}
	header := nats.Header{
		protocol.HeaderBundle:     {strconv.Itoa(len(given.Items))},
		protocol.HeaderLinkBatch:  {fmt.Sprint(given.Number, " ", given.Batch, " ", before)},
		protocol.HeaderLinkGiver:  {store},
		protocol.HeaderNumPending: {strconv.FormatInt(given.Ready, 10)},
	}
	if len(given.Items) < given.Total {
		header[protocol.HeaderLinkPart] = []string{fmt.Sprint(given.First, " ", given.Total)}
	}
	return header
}

// AppendGiven appends an item to the body of a batch. lines is memory for its headers.
func AppendGiven(b, lines []byte, item *fdbpq.Item, now time.Duration) (body, memory []byte) {
	line := func(name, value string) {
		lines = append(append(append(append(lines, name...), ": "...), value...), "\r\n"...)
	}
	lines = lines[:0]
	line(protocol.HeaderID, item.ID.String())
	line(protocol.HeaderPriority, strconv.FormatInt(item.Priority, 10))
	eachGiven(item, line)
	if item.Expires != 0 {
		left := time.Duration(item.Expires) - now
		line(protocol.HeaderTTL, max(left, time.Millisecond).String())
	}
	return protocol.AppendFrame(b, append(lines, item.Headers...), item.Payload), lines
}

// LinkBatch is an answer of a link.
type LinkBatch struct {
	Number uint64
	Before string // the id of the batch before it
	source.BatchPart
	Giver   string // the id of its store
	Pending uint64 // items that are ready there
	Items   []source.Message
}

// maxLinkID bounds the ids of a giver and of its batches, which the taker stores.
const maxLinkID = 64

func isLinkID(id string) bool {
	return id != "" && len(id) <= maxLinkID && !strings.ContainsFunc(id, func(c rune) bool { return c <= ' ' || c > '~' })
}

// ReadLinkBatch reads an answer of a link to the source of a queue with a name.
func (w *Wire) ReadLinkBatch(queue, name string, m *nats.Msg) (b LinkBatch, err error) {
	words := strings.Split(m.Header.Get(protocol.HeaderLinkBatch), " ")
	n, errN := strconv.Atoi(m.Header.Get(protocol.HeaderBundle))
	if len(words) == 3 {
		b.Number, err = strconv.ParseUint(words[0], 10, 63)
		b.ID, b.Before = words[1], words[2]
	}
	b.Giver = m.Header.Get(protocol.HeaderLinkGiver)
	b.Pending, _ = strconv.ParseUint(m.Header.Get(protocol.HeaderNumPending), 10, 63)
	if err != nil || errN != nil || n < 0 || n > fdbpq.MaxBatch || b.Number == 0 || !isLinkID(b.ID) || !isLinkID(b.Before) || !isLinkID(b.Giver) {
		return b, fmt.Errorf("an answer with the headers %.300v: expected a batch of a link", m.Header)
	}
	if b.Before == protocol.NoBatch {
		b.Before = ""
	}
	b.Total = n
	if part := m.Header.Get(protocol.HeaderLinkPart); part != "" {
		if _, err := fmt.Sscanf(part, "%d %d", &b.First, &b.Total); err != nil || b.First < 0 || b.Total > fdbpq.MaxBatch || b.First+n > b.Total {
			return b, fmt.Errorf("an answer with %d items and %s: %.100q: expected a part of a batch", n, protocol.HeaderLinkPart, part)
		}
	}
	rest, lines := m.Data, newFrameLines()
	for range n {
		var headers, payload []byte
		if headers, payload, rest, err = protocol.NextFrame(rest); err != nil {
			return b, err
		}
		if f := lines.read(headers); f != nil {
			b.Items = append(b.Items, source.Message{Large: f})
			continue
		}
		b.Items = append(b.Items, w.readTaken(queue, name, lines.header, payload))
	}
	if len(rest) > 0 {
		return b, fmt.Errorf("%d bytes follow the %d items of a batch", len(rest), n)
	}
	return b, nil
}

// readTaken makes an item from one that a link has given.
func (w *Wire) readTaken(queue, name string, header nats.Header, payload []byte) (read source.Message) {
	read.Item.Payload = payload
	h := itemHeaders{Wire: w, subject: &subjects.Subject{Queue: queue, Verb: subjects.Push}, item: &read.Item}
	t := taken{&read.Item, 0}
	refuse := func(f *failure.Failure) {
		if f != nil && read.Refused == nil {
			read.Refused = f
		}
	}
	for i := range protocol.PushHeaders {
		of := &protocol.PushHeaders[i]
		if values := header[of.Name]; of.Given && values != nil {
			refuse(h.readOurs(of.Name, values))
		}
	}
	refuse(t.foreign(header))
	bytes, lines := len(read.Item.Headers), t.lines
	refuse(t.own(protocol.HeaderSource, name))
	refuse(t.own(protocol.HeaderSourceID, header.Get(protocol.HeaderID)))
	if t.tooLarge(w) != nil { // the largest item of a giver with the same limits comes without these headers
		read.Item.Headers, t.lines = read.Item.Headers[:bytes], lines
		if f := t.tooLarge(w); f != nil {
			read.Large = f
		}
	}
	return read
}

// Link is a link in the form of an answer.
func Link(l *link.Link) protocol.Link {
	shown := protocol.Link{Name: l.Name, To: l.Config.To, Paused: l.Config.Paused, State: protocol.LinkRunning, Batch: l.Batch, Held: l.Held, Given: l.Given}
	switch {
	case l.Config.Paused:
		shown.State = protocol.LinkPaused
	case l.Batch == 0:
		shown.State = protocol.LinkStarting
	}
	if l.Since != 0 {
		shown.Since = time.Unix(0, l.Since).UTC()
	}
	return shown
}
