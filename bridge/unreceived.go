package bridge

import (
	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// signal handles the messages on the ack subjects of the items that this bridge
// delivered. It ignores settlements, which receive handles. Only here arrives the
// server's message that no client received an item.
func (d *dispatcher) signal(m *nats.Msg) {
	if !fromServer(m) {
		return
	}
	s, err := d.grammar.Parse(m.Subject)
	if err != nil {
		return
	}
	if lease, _, f := d.sealer.open(s.Queue, s.Token); f == nil {
		d.lanes.giveBack(lease)
	}
	for _, lease := range d.lanes.bundles.take(s.Queue, s.Token) {
		d.lanes.giveBack(*lease)
	}
}

// fromServer reports whether a message on an ack subject comes from the server, because
// no client received the item, and is no settlement.
func fromServer(m *nats.Msg) bool {
	return len(m.Header) > 0 && protocol.NoResponders(m.Header.Get(protocol.HeaderStatus), m.Data)
}

// giveBack returns an item that did not reach its consumer to the queue. Overload
// does not refuse it: waiting for the lease to expire would cost more.
func (ls *lanes) giveBack(lease fdbpq.Lease) {
	s := newReturn(verbAck, lease)
	ls.responder.Gate.Force(&s.Request)
	ls.settle(s)
}

// newReturn returns a settlement of the bridge's own: the item did not reach its
// consumer.
func newReturn(as *verb, lease fdbpq.Lease) *settlement {
	s := settlementPool.get()
	s.Prepare(s, &as.Verb, subjects.Subject{Queue: lease.Queue, Verb: subjects.Ack}, &nats.Msg{})
	s.kind, s.lease = settleReturn, lease
	return s
}
