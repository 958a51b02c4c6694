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
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// maxSettled is the size of a result without the text of an error.
const maxSettled = len("+OK \n") + maxTimeText

// BundledSettlement is one settlement of a bundle.
type BundledSettlement struct {
	Settlement
	On      subjects.Subject // its ack subject; of a line that names none, only the queue
	Failure *failure.Failure // the mistake in its line
}

// Settlements is a bundle of settlements whose lines are not read yet.
type Settlements struct {
	Len   int
	wire  *Wire
	queue string
	lines string
}

// OpenSettlements reads how many settlements a bundle has, from the header size. Read may take long, so it is a
// step of its own.
func (w *Wire) OpenSettlements(queue string, m *nats.Msg, size []string) (*Settlements, *failure.Failure) {
	n, f := readBundleSize(size)
	if f != nil {
		return nil, f
	}
	for key := range m.Header {
		if key != protocol.HeaderBundle && strings.HasPrefix(key, protocol.HeaderPrefix) {
			return nil, failure.Newf(400, "header %s is none of a bundle of settlements: expected %s alone", failure.Quote(key), protocol.HeaderBundle)
		}
	}
	if most := w.Limit.BundleRoom() / maxSettled; n > most {
		return nil, failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most)
	}
	if f := checkSize(fmt.Sprintf("a bundle of %d settlements", n), len(m.Data), n*protocol.MaxBundledSettlement); f != nil {
		return nil, f
	}
	text := bytes.TrimSuffix(m.Data, []byte{'\n'})
	if lines := bytes.Count(text, []byte{'\n'}) + 1; lines != n {
		return nil, failure.Newf(400, "the body has %d lines: expected %d, as %s says", lines, n, protocol.HeaderBundle)
	}
	return &Settlements{Len: n, wire: w, queue: queue, lines: string(text)}, nil
}

// Read reads the settlements one after another, each into the same memory. A mistake in a line is a failure of that
// settlement alone.
func (s *Settlements) Read() iter.Seq[*BundledSettlement] {
	return func(yield func(*BundledSettlement) bool) {
		one := new(BundledSettlement)
		for line := range strings.SplitSeq(s.lines, "\n") {
			*one = BundledSettlement{On: subjects.Subject{Queue: s.queue, Verb: subjects.Ack}}
			if one.Failure = s.wire.readLine(one, line); !yield(one) {
				return
			}
		}
	}
}

// readLine reads the settlement of one lease in a bundle: its ack subject, and the body of a message on that
// subject.
func (w *Wire) readLine(s *BundledSettlement, line string) (f *failure.Failure) {
	subject, words, more := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
	lease, err := w.Grammar.Parse(subject)
	switch {
	case err != nil || lease.Verb != subjects.Ack:
		return failure.Newf(400, "%s: expected the ack subject of a leased item, as %s said it, and a settlement behind it", failure.Quote(line), protocol.HeaderAck)
	case lease.Queue != s.On.Queue:
		return failure.Newf(400, "the lease is one of queue %s: expected those of %s, whose subject the bundle was sent to", subjects.Own(lease.Queue), subjects.Own(s.On.Queue))
	}
	s.On = lease
	if _, f = w.open(&s.Settlement, &lease); f != nil {
		return f
	}
	if more && words == "" {
		return failure.Newf(400, "%s: expected a settlement behind the space", failure.Quote(line))
	}
	_, f = s.readWord([]byte(words))
	switch {
	case f != nil:
		return f
	case s.Kind == SettleNext:
		return failure.Newf(400, "%s in a bundle: expected it in a message of its own, because its answer is an item", protocol.SettleNext)
	case s.Result != nil:
		return failure.Newf(400, "a result in a bundle: expected the settlement in a message of its own, because a line has no room for all bytes")
	}
	return nil
}

// Result is the result of one settlement of a bundle.
type Result struct {
	Failure *failure.Failure
	Expires time.Time // when the lease ends now, if it was extended
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
		default:
			to = append(to, protocol.ResultOK...)
		}
		to = append(to, '\n')
	}
	return bytes.TrimSuffix(to, []byte{'\n'})
}
