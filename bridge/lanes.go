package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/edits"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// lanes has the turns of pushes, and the lanes of all other kinds of work. Most kinds have a lane for every queue with such work,
// so a queue's settlements do not wait for its edits.
type lanes struct {
	responder *request.Responder
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	order     leaseOrder
	bundles   bundleReader
	sent      listening.Sent
	shared    []*batch.Shared[kv.Tx] // of each other kind that changes something

	push    *desk.Turns[*push]
	imports *batch.Lanes[*importing, batch.Alone]
	pop     *batch.Lanes[*pop, *settlement]
	change  *batch.Lanes[desk.Change, batch.Alone]
	bulk    *edits.BulkLanes
	read    *reads.Lanes

	entrances [kinds]entrance
}

// init makes the lanes. Each of them works on a copy of base.
func (ls *lanes) init(base desk.Lane, exclusive bool, of pops, queries reads.Options) {
	ls.responder, ls.exclusive, ls.owners = base.Responder, exclusive, of.owners
	ls.order.init(func(w desk.Work) { w.(ordered).start(ls) })
	ls.bundles.init(ls.startSettlement)
	of.exclusive, of.giveBack, of.sent = exclusive, ls.giveBack, &ls.sent
	sharing := func() desk.Lane {
		own := base
		own.Shared = desk.NewShared(&own, exclusive)
		ls.shared = append(ls.shared, own.Shared)
		return own
	}
	ls.push = newPushTurns(base, exclusive)
	ls.imports = desk.NewLanes(sharing(), func(l *desk.Lane) batch.Worker[*importing, batch.Alone] { return &imports{Lane: l} })
	ls.pop = newPopLanes(sharing(), of)
	ls.change = desk.NewLanes(sharing(), func(l *desk.Lane) batch.Worker[desk.Change, batch.Alone] {
		return &desk.ChangeWorker[desk.Change]{Lane: l}
	})
	ls.bulk = edits.NewBulkLanes(sharing())
	ls.read = reads.New(base, queries)
	ls.open()
}

// anyLanes are the lanes of any kind of work.
type anyLanes interface {
	Stop()
	Wait()
	Idle() int
}

func (ls *lanes) all() []anyLanes {
	return []anyLanes{ls.push, ls.imports, ls.pop, ls.change, ls.bulk, ls.read}
}

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
		kindPush:       entranceOf(ls.push.Submit),
		kindImport:     entranceTo(ls.imports),
		kindPop:        entranceTo(ls.pop),
		kindPeek:       entranceOf(ls.peek),
		kindSettlement: entranceOf(func(_ string, s *settlement) { ls.bundles.submit(s) }),
		kindQuery:      entranceOf(ls.read.Enter),
		kindChange:     entranceTo(ls.change),
		kindBulk:       entranceOf(ls.bulk.Enter),
	}
}

// peek hands a peek to the pops that wait, or to the queries.
func (ls *lanes) peek(queue string, p *pop) {
	if p.ask.Wait == 0 {
		ls.read.Enter(queue, p)
	} else {
		ls.pop.Submit(queue, p)
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
func (p *pop) start(ls *lanes) { ls.pop.Submit(p.Subject.Queue, p) }

// settle hands a settlement to a lane. Where only this bridge pops a queue, the lane of pops serves settlements, too, in
// the same transactions. Workers settle as often as they pop, so this halves the number of transactions, and pops do not
// conflict with settlements. Elsewhere pops may conflict with the pops of other bridges, so settlements run in
// transactions of their own, which do not fail with the pops.
func (ls *lanes) settle(s *settlement) {
	if ls.exclusive || ls.owners.Pops(s.Subject.Queue) {
		ls.pop.Join(s.Subject.Queue, s)
	} else {
		ls.change.Submit(s.Subject.Queue, s)
	}
}
