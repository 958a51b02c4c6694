package source

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/internal/reason"
	"github.com/pqbridge/pqbridge/internal/tuple"
)

// Position is how far a source is. A caller gives it back as it was: that is how a transaction learns that
// nobody else has moved the source.
type Position struct {
	Mark       // of the last message that it is done with
	Exact bool // the mark is of a message that was seen; otherwise Seq alone counts

	Created  int64  // when the stream was made, by its word; 0: nobody has spoken with it since it was made, or accepted
	Consumer int64  // the same of the consumer of a source that takes
	From     string // how Seq is found at the first contact: "": as the definition says, fromSeq, or a time. Of a link: fromGiver
	Giver    string // of a link: the store id of the other side
	Left     string // of the last batch of a link: numbers of items, from 1, that this store could not take

	Delivered, Skipped, Poisoned int64

	Stop    Stop
	Blocked int64 // wall clock at which the queue stopped taking items; 0: it takes them

	Revision int64 // grows with each change by an administrator
}

const (
	// fromSeq as a From: Seq is what an administrator has said.
	fromSeq = "seq"

	// fromGiver as a From: the link goes on with what the other side says, whatever was taken before.
	fromGiver = "giver"
)

// Accepts reports whether a link goes on with the number of the other side.
func (p *Position) Accepts() bool { return p.From == fromGiver }

// to sets the position to a sequence of which no message is known.
func (p *Position) to(seq uint64) {
	p.Mark, p.Exact = Mark{Seq: seq}, false
}

// reach moves the position to a message.
func (p *Position) reach(m Mark) {
	if m.Next != "" && m.Next != p.Next { // of another batch: the giver has heard what was left of the one before
		p.Left = ""
	}
	p.Mark, p.Exact = m, true
}

// skip passes over the poisoned message. The item of a link is left to the giver.
func (p *Position) skip() {
	p.reach(p.Stop.At)
	if p.Poisoned++; p.Next != "" {
		p.Left = strings.TrimSpace(fmt.Sprint(p.Left, " ", p.Part))
	}
}

// LeavesOf returns what the giver of a link has to keep of the batch that the source has taken: numbers of
// items, from 1.
func (p *Position) LeavesOf() (numbers []int64) {
	if p.Next != "" { // it is still being taken
		return nil
	}
	for _, word := range strings.Fields(p.Left) {
		if n, err := strconv.ParseInt(word, 10, 64); err == nil {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// accept takes the stream as it is: what it has that was not pushed is fed. Of a stream that lost its end
// and grew again our sequences say nothing any more. A source that copies goes on with what is younger than
// the last message that it read, and at the latest behind the end that the stream had then. One that takes
// begins with the first message, as it acknowledges what is behind its position.
func (p *Position) accept(mode Mode) {
	switch p.Stop.Reason {
	case StopReplaced:
		p.again(0, StartFirst)
	case StopBehind, StopDiverged:
		switch end := min(p.Seq, p.Stop.At.Seq); {
		case mode == ModeTake:
			p.again(0, StartFirst)
		case p.Time != 0:
			p.again(end, time.Unix(0, p.Time+1).UTC().Format(time.RFC3339Nano))
		default:
			p.to(end)
		}
	case StopConsumer:
		p.Created, p.Consumer, p.From = 0, 0, StartFirst
	case StopGiverBehind, StopTakerBehind, StopGiverReplaced:
		p.Giver, p.From, p.Left = "", fromGiver, ""
	}
}

// again has the source find its position as at the first contact, from a start, and not behind seq unless
// that is 0.
func (p *Position) again(seq uint64, from string) {
	p.to(seq)
	p.Created, p.Consumer, p.From = 0, 0, from
}

func (p *Position) numbers() []*int64 {
	return []*int64{&p.Time, &p.Created, &p.Consumer, &p.Delivered, &p.Skipped, &p.Poisoned, &p.Stop.Since, &p.Stop.At.Time, &p.Blocked, &p.Revision}
}

func (p *Position) pack() []byte {
	exact := int64(0)
	if p.Exact {
		exact = 1
	}
	b := tuple.AppendInt(tuple.AppendInt(nil, rowVersion), exact)
	for _, n := range []uint64{p.Seq, p.Subject, uint64(p.Content), p.Stop.At.Seq, p.Stop.At.Subject, uint64(p.Stop.At.Content)} {
		b = tuple.AppendInt(b, int64(n))
	}
	for _, n := range p.numbers() {
		b = tuple.AppendInt(b, *n)
	}
	for _, text := range []string{p.From, string(p.Stop.Reason), p.Stop.Text} {
		b = tuple.AppendString(b, text)
	}
	at := &p.Stop.At
	if p.Giver+p.Batch+p.Next+at.Batch+at.Next+p.Left == "" {
		return b
	}
	for _, text := range []string{p.Giver, p.Batch, p.Next, at.Batch, at.Next} {
		b = tuple.AppendString(b, text)
	}
	b = tuple.AppendInt(tuple.AppendInt(b, p.Part), at.Part)
	if p.Left == "" {
		return b
	}
	return tuple.AppendString(b, p.Left)
}

func (p *Position) parse(b []byte) error {
	r := tuple.Read(b)
	var version, exact int64
	var n [6]int64
	r.Ints(&version, &exact, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5])
	if err := cmp.Or(r.Err(), noun.CheckVersion(version, rowVersion)); err != nil {
		return err
	}
	switch { // what no field has would be lost when the row is written again
	case exact != 0 && exact != 1:
		return fmt.Errorf("%d where its mark is exact", exact)
	case n[2] < 0, n[2] > math.MaxUint32, n[5] < 0, n[5] > math.MaxUint32:
		return fmt.Errorf("%d and %d as checksums of messages", n[2], n[5])
	}
	p.Exact, p.Seq, p.Subject, p.Content = exact == 1, uint64(n[0]), uint64(n[1]), uint32(n[2])
	p.Stop.At.Seq, p.Stop.At.Subject, p.Stop.At.Content = uint64(n[3]), uint64(n[4]), uint32(n[5])
	r.Ints(p.numbers()...)
	p.From, p.Stop.Reason, p.Stop.Text = r.Text(), StopReason(r.Text()), r.Text()
	if r.More() {
		p.Giver, p.Batch, p.Next, p.Stop.At.Batch, p.Stop.At.Next = r.Text(), r.Text(), r.Text(), r.Text(), r.Text()
		r.Ints(&p.Part, &p.Stop.At.Part)
	}
	if r.More() {
		p.Left = r.Text()
	}
	return r.Err()
}

// BatchPart is what an answer has of the batch of a link: the items behind the first ones, of so many.
type BatchPart struct {
	ID           string
	First, Total int
}

// OfBatch is [Position.OfPart] for a whole batch.
func (p *Position) OfBatch(id string, at time.Time, items []Message) []Message {
	return p.OfPart(BatchPart{ID: id, Total: len(items)}, at, items)
}

// OfPart marks items of the batch that follows the position, and ends the batch with a
// message that is no item. It leaves out those that the source is done with.
func (p *Position) OfPart(part BatchPart, at time.Time, items []Message) []Message {
	done := 0
	if p.Next == part.ID {
		done = max(0, min(int(p.Part)-part.First, len(items)))
	}
	for i := done; i < len(items); i++ {
		items[i].Mark = Mark{Seq: p.Seq, Time: at.UnixNano(), Batch: p.Batch, Part: int64(part.First + i + 1), Next: part.ID}
	}
	if part.First+len(items) < part.Total {
		return items[done:]
	}
	return append(items[done:], Message{Mark: Mark{Seq: p.Seq + 1, Time: at.UnixNano(), Batch: part.ID}, None: true})
}

// Stop is why a source waits for a person.
type Stop struct {
	Reason StopReason // "": it does not
	Text   string
	Since  int64 // wall clock
	At     Mark  // the poisoned message; or the last one of the stream, by its Seq
}

// keptText is how much is kept of why a source fails or has stopped.
const keptText = 300

// Text is a text about a source as it is kept: short, and on one line. Remotes have a part in it.
func Text(s string) string { return reason.Text(s, keptText) }

// StopReason is a kind of stop.
type StopReason string

const (
	StopReplaced StopReason = "stream_replaced"
	StopBehind   StopReason = "stream_behind"
	StopDiverged StopReason = "stream_diverged"
	StopConsumer StopReason = "consumer_changed"
	StopPoisoned StopReason = "poisoned"

	StopGiverBehind   StopReason = "giver_behind"
	StopTakerBehind   StopReason = "taker_behind"
	StopGiverReplaced StopReason = "giver_replaced"
)
