package bridge

import (
	"bytes"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// settlements are a bundle of settlements: many leases of a queue, settled by one message
// with one answer. Each of them goes its own way, as if it had come in a message of its own.
// When the last one has ended, the bundle is answered.
type settlements struct {
	message *settlement
	*request.Responder
	most    int // bytes of the answer
	all     []*settlement
	results []settled
	left    atomic.Int64 // of them, and one while they begin
}

// settled is what became of one settlement of a bundle.
type settled struct {
	failure *failure.Failure
	expires string // when the lease ends now, if it was extended
}

// maxSettled is the size of a result without the text of an error.
const maxSettled = len("+OK \n") + maxTimeText

// readBundle reads the settlements of a bundle. A line that is wrong is an error of that
// settlement alone.
func (s *settlement) readBundle(wr *wire, size []string) *failure.Failure {
	n, f := readBundleSize(size)
	if f != nil {
		return f
	}
	for key := range s.Msg.Header {
		if key != protocol.HeaderBundle && strings.HasPrefix(key, protocol.HeaderPrefix) {
			return failure.Newf(400, "header %s is none of a bundle of settlements: expected %s alone", failure.Quote(key), protocol.HeaderBundle)
		}
	}
	most := int(wr.answerLimit.maxPayload.Load()) - bundleFrame
	if n > most/maxSettled {
		return failure.Newf(413, "%s is %d: the server's max_payload has room for the answer to %d", protocol.HeaderBundle, n, most/maxSettled)
	}
	text := strings.TrimSuffix(string(s.Msg.Data), "\n")
	if lines := strings.Count(text, "\n") + 1; lines != n {
		return failure.Newf(400, "the body has %d lines: expected %d, as %s says", lines, n, protocol.HeaderBundle)
	}
	s.Bundled = n
	s.bundle = &settlements{message: s, most: most, all: make([]*settlement, 0, n), results: make([]settled, n)}
	for line := range strings.SplitSeq(text, "\n") {
		one := settlementPool.get()
		one.Prepare(one, s.Verb, subjects.Subject{Queue: s.Subject.Queue, Verb: subjects.Ack}, noMessage)
		one.PassGate() // the gate counts the bundle
		one.within, one.number = s.bundle, len(s.bundle.all)
		one.Failure = one.readLine(wr, line)
		s.bundle.all = append(s.bundle.all, one)
	}
	return nil
}

// noMessage is the message of a settlement that came in a bundle.
var noMessage = new(nats.Msg)

// readLine reads the settlement of one lease in a bundle: its ack subject, and what a
// message on that subject would say.
func (s *settlement) readLine(wr *wire, line string) (f *failure.Failure) {
	subject, words, more := strings.Cut(strings.TrimSuffix(line, "\r"), " ")
	lease, err := wr.grammar.Parse(subject)
	switch {
	case err != nil || lease.Verb != subjects.Ack:
		return failure.Newf(400, "%s: expected the ack subject of a leased item, as %s said it, and a settlement behind it", failure.Quote(line), protocol.HeaderAck)
	case lease.Queue != s.Subject.Queue:
		return failure.Newf(400, "the lease is one of queue %s: expected those of %s, whose subject the bundle was sent to", lease.Queue, s.Subject.Queue)
	}
	s.Subject = lease
	if _, f = s.open(wr); f != nil {
		return f
	}
	if more && words == "" {
		return failure.Newf(400, "%s: expected a settlement behind the space", failure.Quote(line))
	}
	_, f = s.readWord([]byte(words))
	if f == nil && s.kind == settleNext {
		f = failure.Newf(400, "%s in a bundle: expected it in a message of its own, because its answer is an item", protocol.SettleNext)
	}
	return f
}

// begin sends the settlements on their way, in their order.
func (b *settlements) begin(ls *lanes) {
	b.Responder = ls.responder
	b.left.Store(int64(len(b.all)) + 1)
	for _, s := range b.all {
		if s.Failure != nil {
			ls.responder.Refuse(&s.Request, s.Failure)
		} else {
			ls.inOrder(s, &s.order)
		}
	}
	b.all = nil // they may be others by now
	b.done()
}

// ended keeps what became of a settlement.
func (b *settlements) ended(s *settlement) {
	r := &b.results[s.number]
	r.failure = s.Failure
	if s.renewed != nil && s.Failure == nil {
		r.expires = timeText(s.renewed.Expires)
	}
	b.done()
}

// done answers the bundle when nothing of it is left.
func (b *settlements) done() {
	if b.left.Add(-1) > 0 {
		return
	}
	m := b.message
	if m.Msg.Reply != "" {
		body := b.appendResults(nil, true)
		if len(body) > b.most {
			body = b.appendResults(nil, false)
		}
		b.Publish(&nats.Msg{Subject: m.Msg.Reply, Header: nats.Header{protocol.HeaderBundle: {strconv.Itoa(len(b.results))}}, Data: body})
	}
	b.Gate.Leave(&m.Request) // each settlement was counted as served, or as failed
	m.End()
}

// appendResults appends a line for each settlement.
func (b *settlements) appendResults(to []byte, texts bool) []byte {
	for i := range b.results {
		r := &b.results[i]
		switch f := r.failure; {
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
		case r.expires != "":
			to = append(append(append(to, protocol.ResultOK...), ' '), r.expires...)
		default:
			to = append(to, protocol.ResultOK...)
		}
		to = append(to, '\n')
	}
	return bytes.TrimSuffix(to, []byte{'\n'})
}
