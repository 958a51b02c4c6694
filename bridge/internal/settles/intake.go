package settles

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// Options are what an [Intake] works with.
type Options struct {
	Responder *request.Responder
	Verb      *request.Verb // of settlements

	// Settle has a settlement take a turn, beside pops or alone.
	Settle func(desk.Work)

	// Pop returns the pop that a +NXT goes on as, with its place among the settlements of its lease. PopNext has it take a turn.
	Pop     func(Next) (desk.Work, *Place)
	PopNext func(desk.Work)
}

// Intake takes settlements in: it reads their bundles, and hands each settlement to its turn behind the earlier settlements of its
// lease.
type Intake struct {
	Options
	order   order
	bundles reader
}

// Init begins with no settlement.
func (in *Intake) Init(o Options) {
	in.Options = o
	in.order.last = make(map[leaseKey]*Place)
	in.bundles.init(in.start)
}

// Enter takes in a settlement, or the settlements of a bundle.
func (in *Intake) Enter(_ string, s *Settlement) { in.bundles.submit(s) }

// GiveBack returns an item that did not reach its consumer to the queue. Overload does not refuse it: waiting for the lease to
// expire would cost more.
func (in *Intake) GiveBack(lease fdbpq.Lease) {
	s := newReturn(in.Verb, lease)
	in.Responder.Gate.Force(&s.Request)
	in.Settle(s)
}

// start hands a settlement, or the settlements of a bundle, to their turns.
func (in *Intake) start(s *Settlement) {
	switch {
	case s.bundle != nil:
		s.bundle.begin(in.Responder, in.settleInOrder)
	case s.Next != nil && s.Msg.Reply != "":
		pop, place := in.Pop(s.pass())
		in.order.start(place, pop, in.PopNext)
	default:
		in.settleInOrder(s)
	}
}

// settleInOrder starts a settlement behind the others of its lease.
func (in *Intake) settleInOrder(s *Settlement) { in.order.start(&s.place, s, in.Settle) }
