package bridge

import (
	"context"
	"fmt"

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

// workers has the turns of requests that change something, and the workers of others. On a store of this process alone, with a NATS
// server in this process, pushes, pops and settlements take turns together. A turn of pops waits for the answers of a server
// elsewhere, and pushes need not. Edits and imports have turns of their own, which no push or pop waits for.
type workers struct {
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	settling  settles.Intake
	sent      listening.Sent

	push, pop, change, imports *desk.Turns // push and pop may be the same

	bulk *edits.BulkPool
	read *reads.Pool

	results *results.Waits

	entrances [kinds]entrance
}

// The kinds of parts in turns of pushes and pops. Pushes go first, so that pops find their items.
const (
	partPush = iota
	partPop
)

// init makes the turns and pools. Each part of them works on a copy of base.
func (ws *workers) init(base desk.Desk, o Options, of pops.Shared, queries reads.Options) {
	exclusive := o.Exclusive
	ws.exclusive, ws.owners = exclusive, of.Owners
	ws.settling.Init(settles.Options{Responder: base.Responder, Verb: &verbAck.Verb, Settle: ws.submitSettlement, Pop: pops.Next, PopNext: ws.submitPop})
	of.Exclusive, of.GiveBack, of.Sent = exclusive, ws.settling.GiveBack, &ws.sent
	serving := desk.TurnOptions{Weight: weightOf, Part: func(kind int, l *desk.Desk) desk.Part {
		if kind == partPush {
			return pushes.New(l)
		}
		return pops.New(l, of)
	}}
	popping, pushing := serving, serving
	popping.Ahead, pushing.Overlap = pops.IsSettlement, pushes.Beside
	ws.pop = desk.NewTurns(base, exclusive, popping)
	if ws.push = ws.pop; !exclusive || !of.Waits.Local() {
		ws.push = desk.NewTurns(base, exclusive, pushing)
	}
	ws.imports = desk.NewTurns(base, exclusive, desk.TurnOptions{Part: func(_ int, l *desk.Desk) desk.Part { return pushes.NewImports(l) }})
	ws.change = desk.NewTurns(base, exclusive, desk.TurnOptions{Part: func(_ int, l *desk.Desk) desk.Part { return &desk.Changes{Desk: l} }})
	ws.bulk = edits.NewBulkPool(base)
	ws.read = reads.New(base, queries)
	ws.results = results.New(results.Options{
		Desk: base, Exclusive: exclusive, Clients: of.Waits, Places: o.Limits.Waiters, Submit: ws.read.Enter, LookEvery: o.look,
	})
	ws.open()
}

// weightOf is how many items a request adds, takes or settles.
func weightOf(w desk.Work) int { return max(w.Head().Count(), expected(w)) }

// working are the workers of any kind of work.
type working interface {
	Stop()
	Wait()
	Idle() int
}

func (ws *workers) all() []working {
	all := []working{ws.pop, ws.imports, ws.change, ws.bulk, ws.read}
	if ws.push != ws.pop {
		all = append(all, ws.push)
	}
	return all
}

// submitPop has a pop, or a settlement beside pops, take a turn.
func (ws *workers) submitPop(w desk.Work) {
	ws.pop.Submit(turns.Key{Kind: partPop, Queue: w.Head().Subject.Queue}, w)
}

// servePops has the waiting pops of a queue take a turn.
func (ws *workers) servePops(queue string) { ws.pop.Wake(turns.Key{Kind: partPop, Queue: queue}) }

func (ws *workers) stop() {
	for _, kind := range ws.all() {
		kind.Stop()
	}
}

// end ends the workers, and waits for work that nothing else waits for: a pop that waits is not in flight, and a transaction may just have
// an item for it, which would be lost if its answer came too late to be sent.
func (ws *workers) end(ctx context.Context) error {
	ws.stop()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ws.pop.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("drain: work has not ended: %w", ctx.Err())
	}
}

// submit hands a request to the turns or the pool of its kind.
func (ws *workers) submit(w desk.Work) {
	subject := &w.Head().Subject
	queue := subject.Queue
	if subject.Tenant != "" {
		queue = subject.Tenant + "." // no queue's: what a tenant asks of the system keeps nobody else waiting
	}
	ws.entrances[verbOf(subject.Verb).kindOf(subject.Verb)](queue, w)
}

// open makes the entrances of all kinds.
func (ws *workers) open() {
	ws.entrances = [kinds]entrance{
		kindPush:       entranceTo(ws.push, partPush),
		kindImport:     entranceTo(ws.imports, 0),
		kindPop:        entranceTo(ws.pop, partPop),
		kindPeek:       ws.peek,
		kindSettlement: entranceOf(ws.settling.Enter),
		kindQuery:      entranceOf(ws.read.Enter),
		kindResult:     entranceOf(ws.results.Enter),
		kindChange:     entranceTo(ws.change, 0),
		kindBulk:       entranceOf(ws.bulk.Enter),
	}
}

// peek hands a peek to the pops that wait, or to the queries.
func (ws *workers) peek(queue string, w desk.Work) {
	if pops.MayWait(w) {
		ws.submitPop(w)
	} else {
		ws.read.Enter(queue, w.(reads.Query))
	}
}

// submitSettlement has a settlement take a turn: beside the pops of its queue, in the same transactions, if it joins them. A large
// result leaves these to the pops.
func (ws *workers) submitSettlement(w desk.Work) {
	queue := w.Head().Subject.Queue
	if ws.joinsPops(queue) && !w.(*settles.Settlement).Large() {
		ws.submitPop(w)
	} else {
		ws.change.Submit(turns.Key{Queue: queue}, w)
	}
}

// joinsPops reports whether the settlements of a queue share the transactions of its pops: where only this bridge pops the queue,
// because it alone has the store, or owns the queue. Workers settle as often as they pop, so this halves the number of
// transactions, and pops do not conflict with settlements. Elsewhere pops may conflict with those of other bridges, so
// settlements run in transactions of their own, which do not fail with the pops.
//
// The pop of a +NXT always acknowledges in its own transaction.
func (ws *workers) joinsPops(queue string) bool { return ws.exclusive || ws.owners.Pops(queue) }
