package client

import (
	"fmt"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// ackSubjects are the subjects on which a client settles leases. The client never publishes
// a settlement elsewhere: a forged item could otherwise use the client's rights.
type ackSubjects struct {
	own    subjects.Grammar
	bridge subjects.Grammar // as the bridge writes them
}

// ackSubject is the subject that settles a lease. The zero value settles none.
type ackSubject struct {
	own     string
	written string // as the bridge writes it, and as a bundle or a push names a lease
}

// parse returns the subject on which to settle a lease, from either form of it.
func (a ackSubjects) parse(subject string) (ack ackSubject, queue string, err error) {
	ack = ackSubject{subject, subject}
	s, err := a.own.Parse(subject)
	switch {
	case a.bridge == a.own:
	case err == nil:
		ack.written, err = a.bridge.Build(s)
	default:
		if s, err = a.bridge.Parse(subject); err == nil {
			ack.own, err = a.own.Build(s)
		}
	}
	if err == nil && s.Verb != subjects.Ack {
		err = fmt.Errorf("subject %q: expected one that settles a lease", subject)
	}
	if err != nil {
		return ackSubject{}, "", err
	}
	return ack, s.Queue, nil
}

// leaseOf returns the subject that settles an item's lease: the reply subject, or PQ-Ack if
// the item has come through another account. It settles none if neither is an ack subject of the
// queue. An empty queue allows any.
func (a ackSubjects) leaseOf(queue string, m *nats.Msg) ackSubject {
	from := [2]string{m.Reply}
	if values := m.Header[protocol.HeaderAck]; len(values) == 1 {
		from[1] = values[0]
	}
	for _, subject := range from {
		if subject == "" {
			continue
		}
		if ack, of, err := a.parse(subject); err == nil && (queue == "" || of == queue) {
			return ack
		}
	}
	return ackSubject{}
}
