package bridge

import (
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// receive is the callback of the request subscriptions. It never blocks: a
// request is refused at once, or handed to a lane.
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
				return // whoever handed the item out hears it too
			}
		}
	}
	unfit := checkBlock(m)
	if m.Reply != "" && !b.replies.answers(m.Reply) {
		unfit = b.replies.refuse(m)
	}
	r := newRequest(m)
	r.subject, r.verb = s, verbOf(s.Verb)
	if err != nil {
		r.verb, r.held = b.meant(m.Subject), -1
		f := badRequest(err)
		if r.verb == verbPush && m.Reply == "" {
			b.events.lost(b.meantQueue(m.Subject), f)
		}
		b.answerFailure(r, f)
		b.done(r, f)
		return
	}
	if unfit != nil {
		r.held = -1
		b.refuse(r, unfit)
		return
	}
	if f := b.gate.enter(r); f != nil {
		b.refuse(r, f)
		return
	}
	if f := b.route(r); f != nil {
		b.refuse(r, f)
	}
}

// meant guesses the verb of a malformed subject: a failed push is answered
// differently from the rest.
func (b *Bridge) meant(subject string) verb {
	_, rest, _ := strings.Cut(strings.TrimPrefix(subject, b.options.Prefix+"."), ".")
	word, _, _ := strings.Cut(rest, ".")
	for v := range verbNone {
		if verbNames[v] == word {
			return v
		}
	}
	return verbNone
}

// meantQueue returns the queue of a malformed subject, "" when its name is
// what is wrong with it.
func (b *Bridge) meantQueue(subject string) string {
	queue, _, _ := strings.Cut(strings.TrimPrefix(subject, b.options.Prefix+"."), ".")
	if subjects.CheckQueue(queue) != nil {
		return ""
	}
	return queue
}

// route reads what a request asks for and hands it to the lane that does it.
// A failure is the caller's to answer.
func (b *Bridge) route(r *request) *failure {
	answerable := r.msg.Reply != ""
	switch r.verb {
	case verbPush:
		if f := b.readPush(r); f != nil {
			return f
		}
		b.lanes.push.Submit(r.subject.Queue, r)
		return nil
	case verbPop, verbPeek:
		if !answerable {
			return failf(400, "a %s without a reply subject takes nothing", r.verb)
		}
		if f := readPop(r); f != nil {
			return f
		}
		if r.verb == verbPeek && r.pop.wait == 0 {
			b.lanes.read.Submit(r.subject.Queue, r)
		} else {
			b.lanes.take.Submit(r.subject.Queue, r)
		}
		return nil
	case verbAck:
		if f := b.readSettlement(r); f != nil {
			return f
		}
		if b.turns.take(r) {
			b.submitSettlement(r)
		}
		return nil
	case verbRemove, verbMove, verbAdmin:
		if f := readChange(r); f != nil {
			return f
		}
		b.lanes.change.Submit(r.subject.Queue, r)
		return nil
	}
	if !answerable {
		return failf(400, "%s without a reply subject does nothing", r.verb)
	}
	if r.verb == verbImport {
		f := b.readImport(r)
		if f == nil {
			b.lanes.imports.Submit(r.subject.Queue, r)
		}
		return f
	}
	if f := readQuery(r); f != nil {
		return f
	}
	b.lanes.read.Submit(r.subject.Queue, r)
	return nil
}

// fromServer tells the server's word about a lost message from a settlement.
func fromServer(m *nats.Msg) bool {
	return len(m.Data) == 0 && len(m.Header) > 0 && m.Header.Get(protocol.HeaderStatus) == protocol.StatusNoResponders
}
