package bridge

import (
	"cmp"
	"context"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// lanes are the kinds of work. Each has a lane for every queue that has such
// work, so a queue's pushes do not wait for its pops.
type lanes struct {
	responder *request.Responder
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	order     leaseOrder
	sent      listening.Sent
	shared    []*batch.Shared[kv.Tx] // of each kind that changes something

	push    *batch.Lanes[*push, batch.Alone]
	imports *batch.Lanes[*importing, batch.Alone]
	pop     *batch.Lanes[*pop, *settlement]
	change  *batch.Lanes[changer, batch.Alone]
	read    *batch.Lanes[query, batch.Alone]
}

// init makes the lanes, each of them from a base.
func (ls *lanes) init(base lane, exclusive bool, waits *waits, owners *peers.Owners, about *about) {
	ls.responder, ls.exclusive, ls.owners = base.Responder, exclusive, owners
	ls.order.init(ls.start)
	base.giveBack, base.sent = ls.giveBack, &ls.sent
	sharing := func() lane {
		own := base
		own.shared = newShared(&own, exclusive)
		ls.shared = append(ls.shared, own.shared)
		return own
	}
	ls.push = newPushLanes(sharing(), exclusive)
	ls.imports = newLanes(sharing(), func(l *lane) batch.Worker[*importing, batch.Alone] { return &imports{lane: l} })
	ls.pop = newPopLanes(sharing(), exclusive, waits, owners)
	ls.change = newLanes(sharing(), func(l *lane) batch.Worker[changer, batch.Alone] { return &changes[changer]{lane: l} })
	base.line = queryWait / 2
	ls.read = newLanes(base, func(l *lane) batch.Worker[query, batch.Alone] {
		return &reads{lane: l, waits: waits, about: about}
	})
}

// newLanes returns the lanes of one kind of work that nothing joins.
func newLanes[W work](base lane, worker func(*lane) batch.Worker[W, batch.Alone]) *batch.Lanes[W, batch.Alone] {
	return batch.New(laneOptions(base, func(l *lane, _ *batch.Lane[W, batch.Alone]) batch.Worker[W, batch.Alone] { return worker(l) }))
}

func laneOptions[W work, J any](base lane, worker func(*lane, *batch.Lane[W, J]) batch.Worker[W, J]) batch.Options[W, J] {
	return batch.Options[W, J]{
		Limits:   batch.Limits{Requests: base.limits.BatchRequests, Bytes: base.limits.BatchBytes, Wait: base.line},
		Patience: base.patience,
		Worker: func(of *batch.Lane[W, J]) batch.Worker[W, J] {
			l := base
			l.setBusy = of.SetBusy
			return worker(&l, of)
		},
		Size:   func(w W) int { return w.Head().Size() },
		Waited: func(w W) time.Duration { return base.waited(w) },
		Stuck:  func(late []W) { refuseStuck(&base, late) },
	}
}

// refuseStuck refuses what has waited for too long behind a transaction that does not end.
func refuseStuck[W work](l *lane, late []W) {
	l.keeper.notice(errStuck)
	request.RefuseAll(l.Responder, late, errStuck)
}

// How many transactions of several queues are under way at a time, for each kind of work.
// More of them are smaller, and cost more; fewer have a queue wait for those of others. The
// latency of a shared store hides more of them.
const (
	sharedExclusive = 2
	sharedOthers    = 4
)

// newShared returns the transactions of one kind of work, in which several queues may have
// a part.
func newShared(base *lane, exclusive bool) *batch.Shared[kv.Tx] {
	store, running := base.store, sharedOthers
	if exclusive {
		running = sharedExclusive
	}
	return batch.NewShared(batch.SharedOptions[kv.Tx]{
		Update: func(ctx context.Context, fn func(kv.Tx) error) error {
			session := store.Session()
			defer session.Release()
			return session.Update(ctx, fn)
		},
		Outage:  failure.IsOutage,
		Running: running,
		Weight:  base.limits.BatchRequests,
		Bytes:   base.limits.BatchBytes,
		Slow:    cmp.Or(base.slow, slowBatch),
	})
}

// slowBatch is how long the part of a queue in a shared transaction may take, as clocks on
// the wall show it: a busy machine has queues run alone that could have shared.
const slowBatch = 20 * time.Millisecond

// anyLanes are lanes as far as all kinds are alike.
type anyLanes interface {
	Stop()
	Wait()
	Idle() int
}

func (ls *lanes) all() []anyLanes {
	return []anyLanes{ls.push, ls.imports, ls.pop, ls.change, ls.read}
}

func (ls *lanes) stop() {
	for _, kind := range ls.all() {
		kind.Stop()
	}
}

// submit hands a request to the lane of its kind and queue. A settlement goes there
// after the earlier settlements of its lease.
func (ls *lanes) submit(w work) {
	queue := w.Head().Subject.Queue
	switch w := w.(type) {
	case *push:
		ls.push.Submit(queue, w)
	case *settlement:
		switch {
		case w.bundle != nil:
			w.bundle.begin(ls)
		case w.Next != nil && w.Msg.Reply != "":
			next := nextPop(w)
			ls.inOrder(next, &next.acks.order)
		default:
			ls.inOrder(w, &w.order)
		}
	case *pop:
		if w.peeks && w.ask.Wait == 0 {
			ls.query(queue, w)
		} else {
			ls.pop.Submit(queue, w)
		}
	case *importing:
		ls.imports.Submit(queue, w)
	case query:
		ls.query(queue, w)
	case changer:
		ls.change.Submit(queue, w)
	}
}

// inOrder starts a settlement after the earlier ones of its lease.
func (ls *lanes) inOrder(w work, place *orderPlace) {
	if s := &w.Head().Subject; ls.order.add(place, leaseKey{s.Queue, s.Token}, w) {
		ls.start(w)
	}
}

// query hands a query to its lane, or refuses it.
func (ls *lanes) query(queue string, q query) {
	if !ls.read.Submit(queue, q) {
		ls.responder.Refuse(q.Head(), errSlowQueries)
	}
}

// start hands a settlement to its lane.
func (ls *lanes) start(w work) {
	switch w := w.(type) {
	case *pop:
		ls.pop.Submit(w.Subject.Queue, w)
	case *settlement:
		ls.settle(w)
	}
}

// settle hands a settlement to a lane. Where only this bridge pops a queue, the lane of pops
// serves settlements, too, in the same transactions. Workers settle as often as they pop, so
// this halves the number of transactions, and pops do not conflict with settlements. Elsewhere
// pops may conflict with the pops of other bridges; settlements run apart, so that they do
// not fail with them.
func (ls *lanes) settle(s *settlement) {
	if ls.exclusive || ls.owners.Pops(s.Subject.Queue) {
		ls.pop.Join(s.Subject.Queue, s)
	} else {
		ls.change.Submit(s.Subject.Queue, s)
	}
}
