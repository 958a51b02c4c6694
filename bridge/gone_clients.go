package bridge

import (
	"time"

	"github.com/nats-io/nats.go"

	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/subjects"
)

// errGone ends the wait of a pop whose client has gone. It is counted, not sent.
var errGone = &failure.Failure{Code: 408, Text: "the client stopped listening for its answer"}

// sweep is [waiting.Options].Gone. It also finds out which clients are not seen any more, and ends their waits soon.
func (w *waits) sweep(of []waiting.Wait) (gone []string) {
	clients := make([]listening.Client, len(of))
	for i := range of {
		clients[i] = clientOf(&of[i])
	}
	gone, hidden := w.sight.Sweep(clients)
	if hidden {
		w.line.Unsee(func(at *waiting.Wait) bool { return !w.sight.Sees(clientOf(at)) }, time.Now().Add(w.unseen))
	}
	return gone
}

func clientOf(w *waiting.Wait) listening.Client {
	return listening.Client{Queue: w.Queue, Reply: w.Reply}
}

func set(names []string) map[string]bool {
	is := make(map[string]bool, len(names))
	for _, name := range names {
		is[name] = true
	}
	return is
}

// mustAsk reports whether the transaction asks about the client of a pop for which it has items. It does if the pop
// has waited and nobody has asked before, or if the items would be lost with the client: if it pops them for good,
// has no id to repeat the pop, and is no link, which holds its items. If asking costs nothing, it also asks about a
// pop that has not waited.
func (l *pops) mustAsk(r *pop) bool {
	if l.attempt.silent || r.sure || r.peeks || r.gives != nil || len(r.found) == 0 {
		return false
	}
	waited, loses := r.place != nil || r.waited, r.leased == 0 && r.ask.ID == ""
	return waited && !r.asked || loses && (waited || l.waits.sight.Local())
}

// ask asks about the clients of pops that the transaction is about to serve. All queues that share the transaction ask
// before any of them waits for the answer.
func (l *pops) ask() {
	var replies []string
	for _, r := range l.todo[:l.served] {
		if l.mustAsk(r) {
			r.sure = true
			replies = append(replies, r.Msg.Reply)
		}
	}
	if len(replies) > 0 {
		l.question = l.waits.sight.Ask(replies)
	}
}

// Check makes the transaction run again without items for clients that have gone.
func (l *pops) Check() bool {
	if l.question == nil {
		return true
	}
	gone, _ := l.question.Gone()
	l.question = nil
	nobody := set(gone)
	for _, r := range l.todo[:l.served] {
		r.gone = r.gone || nobody[r.Msg.Reply]
	}
	return len(gone) == 0
}

// unasked forgets a question whose answer the transaction does not need.
func (l *pops) unasked() {
	l.question.Close()
	l.question = nil
}

// signal handles the messages on the ack subjects of the items that this bridge delivered. It ignores settlements,
// which receive handles. The server's message that no client received an item arrives only here.
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
	s := settlementPool.Get()
	s.Prepare(s, &as.Verb, subjects.Subject{Queue: lease.Queue, Verb: subjects.Ack}, &nats.Msg{})
	s.Kind, s.Lease = codec.SettleReturn, lease
	return s
}
