package codec

import (
	"bytes"
	"fmt"
	"iter"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// SettleKind is a kind of settlement.
type SettleKind uint8

const (
	SettleAck SettleKind = iota
	SettleNack
	SettleProgress
	SettleTerm
	SettleNext
	SettleBack
	SettleReturn // no client received the item
)

// Settlement is a message on an ack subject.
type Settlement struct {
	Kind   SettleKind
	Lease  fdbpq.Lease
	Leased time.Duration  // the length for which the pop of the lease asked
	Delay  *time.Duration // of a nack, nil if it names none
	Reason string         // of a nack, a term, or a back
	Next   *PopRequest    // of a +NXT
	Result []byte         // of an ack; nil: it has none, and one without bytes is none, too, but was given

	Progress string // of a +WPI: how far the holder is; "": it does not say
}

// ReadSettlement reads a settlement.
func (w *Wire) ReadSettlement(on *subjects.Subject, m *nats.Msg) (s Settlement, f *failure.Failure) {
	if _, is := m.Header[protocol.HeaderFrames]; is {
		return s, failure.Newf(400, "%s without %s: expected the number of frames there", protocol.HeaderFrames, protocol.HeaderBundle)
	}
	terms, f := w.open(&s, on)
	if f != nil {
		return s, f
	}
	rest, f := s.readWord(m.Data)
	if f != nil {
		return s, f
	}
	header, sentBack := m.Header, w.comesWithItem(on, m.Header)
	if cost, is := header[protocol.HeaderCost]; is && !sentBack {
		header = maps.Clone(header)
		delete(header, protocol.HeaderCost)
		if f := s.readCost(cost); f != nil {
			return s, f
		}
	}
	switch {
	case s.Kind == SettleNext:
		next, f := readPop(terms, "the request behind +NXT", rest, header, popOptions{})
		s.Next = &next
		return s, f
	case s.Result != nil:
		if f := w.Limit.admitResult(s.Result); f != nil {
			return s, f
		}
	}
	if sentBack {
		return s, nil
	}
	for key := range header {
		if strings.HasPrefix(key, protocol.HeaderPrefix) {
			return s, failure.Newf(400, "header %s is none of a settlement: expected %s, or no %s header", failure.Quote(key), protocol.HeaderCost, protocol.HeaderPrefix)
		}
	}
	return s, nil
}

// Unused reports whether nobody has begun with the item, which has cost nothing then.
func (s *Settlement) Unused() bool {
	return s.Kind == SettleReturn || s.Kind == SettleBack && s.Reason == ""
}

// readCost reads what the delivery has cost.
func (s *Settlement) readCost(values []string) *failure.Failure {
	text, f := single(protocol.HeaderCost, values)
	if f != nil {
		return f
	}
	if s.Unused() {
		return failure.Newf(400, "%s of a %s without a reason: expected none, because an item with which nobody has begun costs nothing", protocol.HeaderCost, protocol.SettleBack)
	}
	cost, f := ParseInteger(protocol.HeaderCost, text, 0, fdbpq.MaxCost)
	s.Lease.Spent = &cost
	return f
}

// comesWithItem reports whether a settlement has the headers of the item that it settles:
// clients that answer a message may send them back.
func (w *Wire) comesWithItem(on *subjects.Subject, header nats.Header) bool {
	acks := header[protocol.HeaderAck]
	if len(acks) != 1 {
		return false
	}
	item, err := w.Grammar.Parse(acks[0])
	return err == nil && item.Verb == on.Verb && item.Queue == on.Queue && item.Token == on.Token
}

// open reads the lease of a settlement, and the terms of the pop that gave it.
func (w *Wire) open(s *Settlement, on *subjects.Subject) (t Terms, f *failure.Failure) {
	s.Lease, t, f = w.Sealer.Open(on.Queue, on.Token)
	s.Leased = t.Lease
	return t, f
}

const settleForms = `"", +ACK, +ACK <result>, +OK, -NAK, -NAK {"delay":<ns>,"reason":"..."}, -NAK 5s, +BACK [reason], +WPI [progress], +TERM [reason] or +NXT [pop request]`

// readWord reads the kind of a settlement, and returns the text behind +NXT.
func (s *Settlement) readWord(body []byte) (rest []byte, f *failure.Failure) {
	if result, is := bytes.CutPrefix(body, []byte(protocol.SettleAck+" ")); is {
		s.Kind, s.Result = SettleAck, result
		return nil, nil
	}
	if f := checkSize("a settlement", len(body), protocol.MaxRequestBody); f != nil {
		return nil, f
	}
	verb, behind := body, body[len(body):]
	if i := bytes.IndexAny(verb, " \t\r\n{"); i > 0 {
		verb, behind = verb[:i], verb[i:]
	}
	rest = bytes.Trim(behind, " \t\r\n")
	switch string(verb) {
	case "", protocol.SettleAck, protocol.SettleOK:
		s.Kind = SettleAck
	case protocol.SettleNack:
		s.Kind = SettleNack
		return nil, s.readNack(rest)
	case protocol.SettleBack:
		s.Kind = SettleBack
		s.Reason = reasonText(rest)
		return nil, nil
	case protocol.SettleTerminate:
		s.Kind = SettleTerm
		s.Reason = reasonText(rest)
		return nil, nil
	case protocol.SettleNext:
		s.Kind = SettleNext
	case protocol.SettleProgress:
		if s.Kind = SettleProgress; len(rest) > 0 {
			s.Progress, f = parseProgress("the text behind "+protocol.SettleProgress, string(rest))
			return nil, f
		}
	default:
		return nil, failure.Newf(400, "a settlement is %s: expected %s", failure.Quote(string(verb)), settleForms)
	}
	if s.Kind != SettleNext && len(behind) > 0 { // JetStream ignores such a message
		return nil, errFollowed(behind)
	}
	return rest, nil
}

func parseProgress(what, text string) (string, *failure.Failure) {
	if fdbpq.CheckProgress(text) != nil {
		return "", failure.Newf(400, "%s has %d bytes, %s: expected up to %d bytes of UTF-8 without control characters", what, len(text), failure.Quote(text), fdbpq.MaxProgress)
	}
	return text, nil
}

func errFollowed(rest []byte) *failure.Failure {
	return failure.Newf(400, "a settlement is followed by %s: expected nothing", failure.Quote(string(rest)))
}

// reasonText is the kept part of the reason of +BACK, and of +TERM for the dead letter. Headers carry it unchanged,
// so it has no spaces at its ends.
func reasonText(b []byte) string { return strings.TrimSpace(fdbpq.ReasonText(string(b))) }

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
		if key != protocol.HeaderAck && key != protocol.HeaderCost {
			return failure.Newf(400, "header %s is none of a settlement in a bundle: expected %s, and %s", failure.Quote(key), protocol.HeaderAck, protocol.HeaderCost)
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
	if cost, is := lines.header[protocol.HeaderCost]; is {
		if f := s.readCost(cost); f != nil {
			return f
		}
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
	Kept    fdbpq.Kept // what became of the result, if there is one; of an extension KeptDropped alone
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
			if r.Kept != "" {
				to = append(append(to, ' '), r.Kept...)
			}
		case r.Kept != "":
			to = append(append(append(to, protocol.ResultOK...), ' '), r.Kept...)
		default:
			to = append(to, protocol.ResultOK...)
		}
		to = append(to, '\n')
	}
	return bytes.TrimSuffix(to, []byte{'\n'})
}

// Result writes the headers of a result. display turns a store time into wall time.
func (w *HeaderWriter) Result(r *fdbpq.Result, display func(int64) time.Time) {
	w.string(protocol.HeaderOutcome, string(r.Finish))
	w.time(protocol.HeaderFinishedAt, display(r.Finished))
	w.number(protocol.HeaderDeliveries, r.Deliveries)
	if r.Kept == fdbpq.KeptDropped {
		w.string(protocol.HeaderResult, string(r.Kept))
	}
	if r.Finish == fdbpq.FinishCancelled {
		w.known(protocol.HeaderCancelReason, headerLine(r.Reason))
	} else {
		w.known(protocol.HeaderDeadReason, headerLine(r.Reason))
	}
	w.known(protocol.HeaderDeadCause, headerLine(r.Cause))
	if r.Finish == fdbpq.FinishDead {
		w.known(protocol.HeaderDeadLetter, r.Next)
	} else {
		w.known(protocol.HeaderNext, r.Next)
	}
	w.known(protocol.HeaderNextID, r.NextID)
}

// ReadWait reads a request without options but for how long it may wait.
func ReadWait(m *nats.Msg, verb string) (wait time.Duration, f *failure.Failure) {
	if wait, f = readWaitAlone(m.Header, verb); f == nil {
		f = noBody(m, verb)
	}
	return wait, f
}

// readWaitAlone reads for how long a request may wait, which is its only option among the headers.
func readWaitAlone(header nats.Header, verb string) (wait time.Duration, f *failure.Failure) {
	for key, values := range header {
		switch {
		case key == protocol.HeaderWait:
			value, f := single(key, values)
			if f == nil {
				wait, f = ReadDuration(key, value, 0, math.MaxInt64)
			}
			if f != nil {
				return 0, f
			}
		case strings.HasPrefix(key, protocol.HeaderPrefix):
			return 0, failure.Newf(400, "header %s is none of %s: expected %s", failure.Quote(key), verb, protocol.HeaderWait)
		}
	}
	return min(wait, protocol.MaxWait), nil
}

// resultRoom is how many bytes of a result an answer can carry: what comes with them has short headers.
func (l *Limit) resultRoom() int { return max(0, l.MaxPayload()-replyReserve) }

// admitResult refuses a result that no answer could carry.
func (l *Limit) admitResult(result []byte) *failure.Failure {
	return checkSize("a result", len(result), min(protocol.MaxPayload, l.resultRoom()))
}

// UnshowableResult returns why no answer can carry a result, or nil: it came over a server with a larger max_payload.
func (l *Limit) UnshowableResult(id string, r *fdbpq.Result) *failure.Failure {
	if room := l.resultRoom(); len(r.Body) > room {
		return failure.Newf(413, "the result of item %s has %d bytes, and the server's max_payload of %d has room for %d; it stays there",
			id, len(r.Body), l.MaxPayload(), room)
	}
	return nil
}
