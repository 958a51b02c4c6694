package bridge

import (
	"errors"
	"slices"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// errGone ends the wait of a pop whose client has gone. It is counted, not sent.
var errGone = &failure.Failure{Code: 408, Text: "the client stopped listening for its answer"}

// errClientsGone makes a transaction run again without the pops of clients that have gone.
var errClientsGone = errors.New("a client that waited has gone")

// losesItems reports whether the items that the pop has found are lost when its client
// has gone. Leased items are given back, a pop with an id can be repeated, and a link holds its items.
func (r *pop) losesItems() bool {
	return !r.peeks && r.gives == nil && r.leased == 0 && r.ask.ID == "" && len(r.found) > 0
}

// findGone asks whether the clients still listen that are about to get items without a
// lease after a wait. It reports whether any of them has gone.
func (t *popTransaction) findGone() bool {
	var lose []*waiting.Pop[*pop]
	for _, r := range t.todo[:min(t.served, len(t.waiting.Pops))] {
		if r.losesItems() {
			lose = append(lose, r.place)
		}
	}
	t.gone = t.waits.line.Gone(lose)
	return len(t.gone) > 0
}

// dropGone goes on without the pops of clients that have gone.
func (t *popTransaction) dropGone() {
	fresh := t.todo[len(t.waiting.Pops):]
	t.waiting.Pops = slices.DeleteFunc(t.waiting.Pops, func(r *pop) bool { return slices.Contains(t.gone, r) })
	for _, r := range t.gone {
		t.Done(&r.Request, errGone)
	}
	t.todo = slices.Concat(t.waiting.Pops, fresh)
	t.part = batch.NewPart(len(t.todo))
	t.alone = false
}

// signal handles the messages on the ack subjects of the items that this bridge
// delivered. It ignores settlements, which receive handles. Only here arrives the
// server's message that no client received an item.
func (d *dispatcher) signal(m *nats.Msg) {
	if !listening.Unreceived(m) {
		return
	}
	s, err := d.Grammar.Parse(m.Subject)
	if err != nil {
		return
	}
	if lease, _, f := d.Sealer.Open(s.Queue, s.Token); f == nil {
		d.lanes.giveBack(lease)
	}
	for _, lease := range d.lanes.sent.Take(s.Queue, s.Token) {
		d.lanes.giveBack(*lease)
	}
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
	s.Kind, s.Lease = codec.SettleReturn, lease
	return s
}
