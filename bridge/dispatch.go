package bridge

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// receive handles a message of the subscriptions to requests and settlements. It
// never blocks: it refuses the request at once or hands it to a lane.
func (b *Bridge) receive(m *nats.Msg) {
	s, err := b.grammar.Parse(m.Subject)
	if err == nil {
		switch s.Verb {
		case subjects.Event:
			if m.Reply == "" {
				return // another bridge's
			}
			err = failf(400, "subject %s: events are published by the bridge, subscribe to them", shown(m.Subject))
		case subjects.Ack:
			if fromServer(m) {
				if b.gate.closed() { // signals may have ended
					b.signal(m)
				}
				return // the bridge that delivered the item receives it, too
			}
		}
	}
	if err != nil && m.Reply == "" && peers.IsProof(m.Subject) {
		return // between other bridges
	}
	unfit := checkBlock(m)
	if m.Reply != "" && !b.replies.answers(m.Reply) {
		unfit = b.replies.refuse(m)
	}
	v := verbOf(s.Verb)
	if err != nil {
		v = b.meant(m.Subject)
		r := newRequest(verbNone, s, m)
		r.verb, r.refusal, r.counted = v, v.refusal, -1
		f := badRequest(err)
		if v == verbPush && m.Reply == "" {
			b.events.lost(b.meantQueue(m.Subject), f)
		}
		b.answerFailure(r, f)
		b.done(r, f)
		return
	}
	r := newRequest(v, s, m)
	if unfit != nil {
		r.counted = -1
		b.refuse(r, unfit)
		return
	}
	f := b.gate.enter(r)
	if f == nil && !v.silent && m.Reply == "" {
		f = failf(400, "a %s without a reply subject does nothing", v.name)
	}
	if f == nil {
		f = r.work.read(b)
	}
	if f != nil {
		b.refuse(r, f)
		return
	}
	r.work.submit(b)
}

// meant guesses the verb of a malformed subject: the answer to a failed push has a
// form of its own.
func (b *Bridge) meant(subject string) *verb {
	_, rest, _ := strings.Cut(strings.TrimPrefix(subject, b.options.Prefix+"."), ".")
	word, _, _ := strings.Cut(rest, ".")
	return verbNamed(word)
}

// meantQueue returns the queue of a malformed subject, or "" when its name is
// malformed.
func (b *Bridge) meantQueue(subject string) string {
	queue, _, _ := strings.Cut(strings.TrimPrefix(subject, b.options.Prefix+"."), ".")
	if subjects.CheckQueue(queue) != nil {
		return ""
	}
	return queue
}

// fromServer says whether a message on an ack subject is the server's, about a message
// that had no receiver, and no settlement.
func fromServer(m *nats.Msg) bool {
	return len(m.Header) > 0 && protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data)
}
