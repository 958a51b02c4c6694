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

// parse returns the subject on which to settle a lease, from the one that the bridge
// has written, or from one that parse has returned.
func (a ackSubjects) parse(subject string) (own, queue string, err error) {
	s, err := a.own.Parse(subject)
	own = subject
	if err != nil && a.bridge != a.own {
		if s, err = a.bridge.Parse(subject); err == nil {
			own, err = a.own.Build(s)
		}
	}
	if err != nil {
		return "", "", err
	}
	if s.Verb != subjects.Ack {
		return "", "", fmt.Errorf("subject %q: expected one that settles a lease", subject)
	}
	return own, s.Queue, nil
}

// written returns the subject as the bridge writes it, from one that parse has returned.
func (a ackSubjects) written(own string) (string, error) {
	if a.bridge == a.own {
		return own, nil
	}
	s, err := a.own.Parse(own)
	if err != nil {
		return "", err
	}
	return a.bridge.Build(s)
}

// leaseOf returns the subject that settles an item's lease: the reply subject, or PQ-Ack if
// the item has come through another account. It is "" if neither is an ack subject of the
// queue. An empty queue allows any.
func (a ackSubjects) leaseOf(queue string, m *nats.Msg) string {
	settles := func(subject string) string {
		own, of, err := a.parse(subject)
		if err != nil || queue != "" && of != queue {
			return ""
		}
		return own
	}
	if own := settles(m.Reply); own != "" {
		return own
	}
	if values := m.Header[protocol.HeaderAck]; len(values) == 1 {
		return settles(values[0])
	}
	return ""
}
