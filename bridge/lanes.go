package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/edits"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/pops"
	"github.com/pqbridge/pqbridge/bridge/internal/pushes"
	"github.com/pqbridge/pqbridge/bridge/internal/reads"
	"github.com/pqbridge/pqbridge/bridge/internal/results"
	"github.com/pqbridge/pqbridge/bridge/internal/settles"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
)

// lanes has the turns of requests that change something, and the lanes of others. On a store of this process alone, with a NATS
// server in this process, pushes, pops and settlements take turns together. A turn of pops waits for the answers of a server
// elsewhere, and pushes need not. Edits and imports have turns of their own, which no push or pop waits for.
type lanes struct {
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	settling  settles.Intake
	sent      listening.Sent

	push, pop, change, imports *desk.Turns // push and pop may be the same

	bulk *edits.BulkLanes
	read *reads.Lanes

	results *results.Waits

	entrances [kinds]entrance
}

// The kinds of parts in turns of pushes and pops. Pushes go first, so that pops find their items.
const (
	partPush = iota
	partPop
)

// init makes the turns and lanes. Each part of them works on a copy of base.
func (ls *lanes) init(base desk.Lane, o Options, of pops.Shared, queries reads.Options) {
	exclusive := o.Exclusive
	ls.exclusive, ls.owners = exclusive, of.Owners
	ls.settling.Init(settles.Options{Responder: base.Responder, Verb: &verbAck.Verb, Settle: ls.submitSettlement, Pop: pops.Next, PopNext: ls.submitPop})
	of.Exclusive, of.GiveBack, of.Sent = exclusive, ls.settling.GiveBack, &ls.sent
	serving := desk.Taking{Weight: weightOf, Part: func(kind int, l *desk.Lane) desk.Part {
		if kind == partPush {
			return pushes.New(l)
		}
		return pops.New(l, of)
	}}
	popping, pushing := serving, serving
	popping.Ahead, pushing.Overlap = pops.IsSettlement, pushes.Beside
	ls.pop = desk.NewTurns(base, exclusive, popping)
	if ls.push = ls.pop; !exclusive || !of.Waits.Local() {
		ls.push = desk.NewTurns(base, exclusive, pushing)
	}
	ls.imports = desk.NewTurns(base, exclusive, desk.Taking{Part: func(_ int, l *desk.Lane) desk.Part { return pushes.NewImports(l) }})
	ls.change = desk.NewTurns(base, exclusive, desk.Taking{Part: func(_ int, l *desk.Lane) desk.Part { return &desk.Changes{Lane: l} }})
	ls.bulk = edits.NewBulkLanes(base)
	ls.read = reads.New(base, queries)
	ls.results = results.New(results.Options{
		Lane: base, Exclusive: exclusive, Clients: of.Waits, Places: o.Limits.Waiters, Submit: ls.read.Enter, LookEvery: o.look,
	})
	ls.open()
}

// weightOf is how many items a request adds, takes or settles.
func weightOf(w desk.Work) int { return max(w.Head().Count(), expected(w)) }

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
		kindPeek:       ls.peek,
		kindSettlement: entranceOf(ls.settling.Enter),
		kindQuery:      entranceOf(ls.read.Enter),
		kindResult:     entranceOf(ls.results.Enter),
		kindChange:     entranceTo(ls.change, 0),
		kindBulk:       entranceOf(ls.bulk.Enter),
	}
}

// peek hands a peek to the pops that wait, or to the queries.
func (ls *lanes) peek(queue string, w desk.Work) {
	if pops.MayWait(w) {
		ls.submitPop(w)
	} else {
		ls.read.Enter(queue, w.(reads.Query))
	}
}

// submitSettlement has a settlement take a turn: beside the pops of its queue, in the same transactions, if it joins them. A large
// result leaves these to the pops.
func (ls *lanes) submitSettlement(w desk.Work) {
	queue := w.Head().Subject.Queue
	if ls.joinsPops(queue) && !w.(*settles.Settlement).Large() {
		ls.submitPop(w)
	} else {
		ls.change.Submit(turns.Key{Queue: queue}, w)
	}
}

// joinsPops reports whether the settlements of a queue share the transactions of its pops: where only this bridge pops the queue,
// because it alone has the store, or owns the queue. Workers settle as often as they pop, so this halves the number of
// transactions, and pops do not conflict with settlements. Elsewhere pops may conflict with those of other bridges, so
// settlements run in transactions of their own, which do not fail with the pops.
//
// The pop of a +NXT always acknowledges in its own transaction.
func (ls *lanes) joinsPops(queue string) bool { return ls.exclusive || ls.owners.Pops(queue) }
