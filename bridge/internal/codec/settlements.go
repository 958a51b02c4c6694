package codec

import (
	"bytes"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// maxSettled is the size of a result without the text of an error.
const maxSettled = len("+OK \n") + maxTimeText

// BundledSettlement is one settlement of a bundle.
type BundledSettlement struct {
	Settlement
	On      subjects.Subject // its ack subject; of a settlement that names none, only the queue
	Failure *failure.Failure // the mistake in its line or frame
}

// Settlements is a bundle of settlements that are not read yet. Each has a line, or each has a frame.
type Settlements struct {
	Len    int
	wire   *Wire
	queue  string
	framed bool
	lines  string
	frames []byte
}

// OpenSettlements reads how many settlements a bundle has, from the header size. Read may take long, so it is a
// step of its own.
func (w *Wire) OpenSettlements(queue string, m *nats.Msg, size []string) (*Settlements, *failure.Failure) {
	n, f := readBundleSize(size)
	if f != nil {
		return nil, f
	}
	s := &Settlements{Len: n, wire: w, queue: queue}
	if f := s.readHeaders(m.Header); f != nil {
		return nil, f
	}
	if most := w.Limit.BundleRoom() / maxSettled; n > most {
		return nil, failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most)
	}
	divide := s.divideLines
	if s.framed {
		divide = s.divideFrames
	}
	if f := divide(m.Data); f != nil {
		return nil, f
	}
	return s, nil
}

// readHeaders reads the headers of the bundle itself.
func (s *Settlements) readHeaders(header nats.Header) (f *failure.Failure) {
	for key, values := range header {
		switch {
		case key == protocol.HeaderBundle:
		case key == protocol.HeaderFrames:
			s.framed, f = readSet(key, values)
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			f = failure.Newf(400, "header %s is none of a bundle of settlements: expected %s alone, or %s beside it",
				failure.Quote(key), protocol.HeaderBundle, protocol.HeaderFrames)
		}
		if f != nil {
			return f
		}
	}
	return nil
}

// divideLines takes a body with a line for each settlement.
func (s *Settlements) divideLines(body []byte) *failure.Failure {
	if f := checkSize(fmt.Sprintf("a bundle of %d settlements", s.Len), len(body), s.Len*protocol.MaxBundledSettlement); f != nil {
		return f
	}
	text := bytes.TrimSuffix(body, []byte{'\n'})
	if lines := bytes.Count(text, []byte{'\n'}) + 1; lines != s.Len {
		return failure.Newf(400, "the body has %d lines: expected %d, as %s says", lines, s.Len, protocol.HeaderBundle)
	}
	s.lines = string(text)
	return nil
}

// divideFrames takes a body with a frame for each settlement.
func (s *Settlements) divideFrames(body []byte) *failure.Failure {
	rest := body
	for i := range s.Len {
		var err error
		if _, _, rest, err = protocol.NextFrame(rest); err != nil {
			return failure.BadRequest(err).OfItem(i)
		}
	}
	s.frames = body
	return noFurtherFrames(rest, s.Len)
}

// Read reads the settlements one after another, each into the same memory. A mistake in a line or a frame is a
// failure of that settlement alone.
func (s *Settlements) Read() iter.Seq[*BundledSettlement] {
	return func(yield func(*BundledSettlement) bool) {
		one, headers := new(BundledSettlement), newFrameLines()
		var line string
		var head, body []byte
		lines, frames := s.lines, s.frames
		for range s.Len {
			*one = BundledSettlement{On: subjects.Subject{Queue: s.queue, Verb: subjects.Ack}}
			if s.framed {
				head, body, frames, _ = protocol.NextFrame(frames) // divideFrames has read it before
				one.Failure = s.wire.readSettlementFrame(one, headers, head, body)
			} else {
				line, lines, _ = strings.Cut(lines, "\n")
				one.Failure = s.wire.readLine(one, line)
			}
			if !yield(one) {
				return
			}
		}
	}
}

// readLine reads the settlement of one lease in a bundle: its ack subject, and the body of a message on that
// subject.
func (w *Wire) readLine(s *BundledSettlement, line string) *failure.Failure {
	subject, words, more := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
	switch known, f := w.openWithin(s, subject); {
	case !known:
		return failure.Newf(400, "%s: expected the ack subject of a leased item, as %s said it, and a settlement behind it", failure.Quote(line), protocol.HeaderAck)
	case f != nil:
		return f
	case more && words == "":
		return failure.Newf(400, "%s: expected a settlement behind the space", failure.Quote(line))
	}
	if f := s.readWithin([]byte(words)); f != nil {
		return f
	}
	if s.Result != nil {
		return failure.Newf(400, "a result in a bundle: expected the settlement in a message of its own, because a line has no room for all bytes")
	}
	return nil
}

// readSettlementFrame reads the settlement of one lease in a bundle: headers with its ack subject alone, and the
// body of a message on that subject.
func (w *Wire) readSettlementFrame(s *BundledSettlement, lines *frameLines, headers, body []byte) *failure.Failure {
	if f := lines.read(headers); f != nil {
		return f
	}
	for key := range lines.header {
		if key != protocol.HeaderAck {
			return failure.Newf(400, "header %s is none of a settlement in a bundle: expected %s alone", failure.Quote(key), protocol.HeaderAck)
		}
	}
	acks := lines.header[protocol.HeaderAck]
	if len(acks) == 0 {
		return failure.Newf(400, "a settlement without %s: expected the ack subject of a leased item there", protocol.HeaderAck)
	}
	ack, f := single(protocol.HeaderAck, acks)
	if f != nil {
		return f
	}
	switch known, f := w.openWithin(s, ack); {
	case !known:
		return failure.Newf(400, "%s is %s: expected the ack subject of a leased item, as %s said it", protocol.HeaderAck, failure.Quote(ack), protocol.HeaderAck)
	case f != nil:
		return f
	}
	if f := s.readWithin(body); f != nil {
		return f
	}
	return w.Limit.admitResult(s.Result)
}

// openWithin reads the lease of a settlement in a bundle. known is false if the subject is none of leases.
func (w *Wire) openWithin(s *BundledSettlement, subject string) (known bool, f *failure.Failure) {
	lease, err := w.Grammar.Parse(subject)
	switch {
	case err != nil || lease.Verb != subjects.Ack:
		return false, nil
	case lease.Queue != s.On.Queue:
		return true, failure.Newf(400, "the lease is one of queue %s: expected those of %s, whose subject the bundle was sent to", subjects.Own(lease.Queue), subjects.Own(s.On.Queue))
	}
	s.On = lease
	_, f = w.open(&s.Settlement, &lease)
	return true, f
}

// readWithin reads what a settlement in a bundle says.
func (s *BundledSettlement) readWithin(body []byte) *failure.Failure {
	_, f := s.readWord(body)
	if f == nil && s.Kind == SettleNext {
		f = failure.Newf(400, "%s in a bundle: expected it in a message of its own, because its answer is an item", protocol.SettleNext)
	}
	return f
}

// Result is the result of one settlement of a bundle.
type Result struct {
	Failure *failure.Failure
	Expires time.Time  // when the lease ends now, if it was extended
	Kept    fdbpq.Kept // what became of the result, if there is one
}

// AppendResults appends a line for each settlement, without the texts of failures if the answer has no room for
// them.
func (l *Limit) AppendResults(to []byte, results []Result) []byte {
	if all := appendResults(to, results, true); len(all)-len(to) <= l.BundleRoom() {
		return all
	}
	return appendResults(to, results, false)
}

func appendResults(to []byte, results []Result, texts bool) []byte {
	for i := range results {
		r := &results[i]
		switch f := r.Failure; {
		case f != nil:
			to = append(to, protocol.ResultError...)
			to = strconv.AppendInt(append(to, ' '), int64(f.Code), 10)
			to = append(to, ' ')
			if f.Reason == "" {
				to = append(to, '-')
			}
			to = append(to, f.Reason...)
			if texts {
				to = append(append(to, ' '), failure.HeaderText(f.Text)...)
			}
		case !r.Expires.IsZero():
			to = AppendTime(append(append(to, protocol.ResultOK...), ' '), r.Expires)
		case r.Kept != "":
			to = append(append(append(to, protocol.ResultOK...), ' '), r.Kept...)
		default:
			to = append(to, protocol.ResultOK...)
		}
		to = append(to, '\n')
	}
	return bytes.TrimSuffix(to, []byte{'\n'})
}
