package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/edits"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// lanes has the turns of requests that change something, and the lanes of others. On a store of this process alone, with a NATS
// server in this process, pushes, pops and settlements take turns together. A turn of pops waits for the answers of a server
// elsewhere, and pushes need not. Edits and imports have turns of their own, which no push or pop waits for.
type lanes struct {
	responder *request.Responder
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	order     leaseOrder
	bundles   bundleReader
	sent      listening.Sent

	push, pop, change, imports *desk.Turns // push and pop may be the same

	bulk *edits.BulkLanes
	read *reads.Lanes

	entrances [kinds]entrance
}

// The kinds of parts in turns of pushes and pops. Pushes go first, so that pops find their items.
const (
	partPush = iota
	partPop
)

// init makes the turns and lanes. Each part of them works on a copy of base.
func (ls *lanes) init(base desk.Lane, exclusive bool, of pops, queries reads.Options) {
	ls.responder, ls.exclusive, ls.owners = base.Responder, exclusive, of.owners
	ls.order.init(func(w desk.Work) { w.(ordered).start(ls) })
	ls.bundles.init(ls.startSettlement)
	of.exclusive, of.giveBack, of.sent = exclusive, ls.giveBack, &ls.sent
	serving := desk.Taking{Weight: weightOf, Part: func(kind int, l *desk.Lane) desk.Part {
		if kind == partPush {
			return &pushes{Lane: l}
		}
		return newPops(l, of)
	}}
	popping, pushing := serving, serving
	popping.Ahead, pushing.Overlap = settles, pushesBeside
	ls.pop = desk.NewTurns(base, exclusive, popping)
	if ls.push = ls.pop; !exclusive || !of.waits.sight.Local() {
		ls.push = desk.NewTurns(base, exclusive, pushing)
	}
	ls.imports = desk.NewTurns(base, exclusive, desk.Taking{Part: func(_ int, l *desk.Lane) desk.Part { return &imports{Lane: l} }})
	ls.change = desk.NewTurns(base, exclusive, desk.Taking{Part: func(_ int, l *desk.Lane) desk.Part { return &desk.Changes{Lane: l} }})
	ls.bulk = edits.NewBulkLanes(base)
	ls.read = reads.New(base, queries)
	ls.open()
}

// weightOf is how many items a request adds, takes or settles.
func weightOf(w desk.Work) int {
	switch w := w.(type) {
	case *push:
		return w.Count()
	case *pop:
		return max(1, w.ask.Limit)
	}
	return 1
}

// anyLanes are the lanes of any kind of work.
type anyLanes interface {
	Stop()
	Wait()
	Idle() int
}

func (ls *lanes) all() []anyLanes {
	all := []anyLanes{ls.pop, ls.imports, ls.change, ls.bulk, ls.read}
	if ls.push != ls.pop {
		all = append(all, ls.push)
	}
	return all
}

// submitPop has a pop, or a settlement beside pops, take a turn.
func (ls *lanes) submitPop(w desk.Work) {
	ls.pop.Submit(turns.Key{Kind: partPop, Queue: w.Head().Subject.Queue}, w)
}

// servePops has the waiting pops of a queue take a turn.
func (ls *lanes) servePops(queue string) { ls.pop.Wake(turns.Key{Kind: partPop, Queue: queue}) }

func (ls *lanes) stop() {
	for _, kind := range ls.all() {
		kind.Stop()
	}
}

// submit hands a request to the lane of its kind and queue.
func (ls *lanes) submit(w desk.Work) {
	subject := &w.Head().Subject
	queue := subject.Queue
	if subject.Tenant != "" {
		queue = subject.Tenant + "." // no queue's: what a tenant asks of the system keeps nobody else waiting
	}
	ls.entrances[verbOf(subject.Verb).kindOf(subject.Verb)](queue, w)
}

// open makes the entrances of all kinds.
func (ls *lanes) open() {
	ls.entrances = [kinds]entrance{
		kindPush:       entranceTo(ls.push, partPush),
		kindImport:     entranceTo(ls.imports, 0),
		kindPop:        entranceTo(ls.pop, partPop),
		kindPeek:       entranceOf(ls.peek),
		kindSettlement: entranceOf(func(_ string, s *settlement) { ls.bundles.submit(s) }),
		kindQuery:      entranceOf(ls.read.Enter),
		kindChange:     entranceTo(ls.change, 0),
		kindBulk:       entranceOf(ls.bulk.Enter),
	}
}

// peek hands a peek to the pops that wait, or to the queries.
func (ls *lanes) peek(queue string, p *pop) {
	if p.ask.Wait == 0 {
		ls.read.Enter(queue, p)
	} else {
		ls.submitPop(p)
	}
}

// startSettlement hands a settlement, or the settlements of a bundle, to the lanes, each after the earlier settlements of
// its lease.
func (ls *lanes) startSettlement(s *settlement) {
	switch {
	case s.bundle != nil:
		s.bundle.begin(ls)
	case s.Next != nil && s.Msg.Reply != "":
		next := nextPop(s)
		ls.inOrder(next, &next.acks.order)
	default:
		ls.inOrder(s, &s.order)
	}
}

// ordered is a settlement, or a pop that acknowledges.
type ordered interface {
	desk.Work

	// start hands it to its lane.
	start(*lanes)
}

// inOrder starts a settlement after the earlier settlements of its lease.
func (ls *lanes) inOrder(s ordered, place *orderPlace) {
	if ls.order.add(place, s) {
		s.start(ls)
	}
}

// start hands the settlement to its lane.
func (s *settlement) start(ls *lanes) { ls.settle(s) }

// start hands the pop to its lane, with the acknowledgement that it makes.
func (p *pop) start(ls *lanes) { ls.submitPop(p) }

// settle has a settlement take a turn. Where only this bridge pops a queue, settlements and pops of the queue have one part, in
// the same transactions. Workers settle as often as they pop, so this halves the number of transactions, and pops do not
// conflict with settlements. Elsewhere pops may conflict with the pops of other bridges, so settlements run in
// transactions of their own, which do not fail with the pops.
func (ls *lanes) settle(s *settlement) {
	if ls.exclusive || ls.owners.Pops(s.Subject.Queue) {
		ls.submitPop(s)
	} else {
		ls.change.Submit(turns.Key{Queue: s.Subject.Queue}, s)
	}
}
