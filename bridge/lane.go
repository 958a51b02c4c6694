package bridge

import (
	"context"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// txTimeout is how long a transaction may take, reruns included, before its
// requests are answered that the store does not commit. Clients wait 5 s by
// habit (the default of nats.go's JetStream), so the answer should come first.
const txTimeout = 4 * time.Second

// txTimeoutDown is the same while the store is known to fail: requests have
// waited for others to fail already.
const txTimeoutDown = time.Second

// lanes are the kinds of work. Each has a lane for every queue that has such
// work, so a queue's pushes do not wait for its pops.
type lanes struct {
	gate      *gate
	exclusive bool // only this process can open the store
	order     settlementOrder

	push    *batch.Lanes[*push]
	imports *batch.Lanes[*importing]
	pop     *batch.Lanes[*pop]
	change  *batch.Lanes[changer]
	read    *batch.Lanes[query]
}

// init makes the lanes, each of them from a base.
func (ls *lanes) init(base lane, exclusive bool, waits *waits, turns *peers.Turns, about *about) {
	ls.gate, ls.exclusive = base.gate, exclusive
	ls.order.init(func(s *settlement) { s.start(ls) })
	base.giveBack = ls.giveBack
	ls.push = newLanes(base, func(l *lane, _ *batch.Lane[*push]) batch.Worker[*push] { return &pushes{lane: l} })
	ls.imports = newLanes(base, func(l *lane, _ *batch.Lane[*importing]) batch.Worker[*importing] { return &imports{lane: l} })
	ls.pop = newLanes(base, func(l *lane, of *batch.Lane[*pop]) batch.Worker[*pop] {
		return &pops{lane: l, waits: waits, turns: turns, exclusive: exclusive, batches: of, changes: changes{lane: l}}
	})
	ls.change = newLanes(base, func(l *lane, _ *batch.Lane[changer]) batch.Worker[changer] { return &changes{lane: l} })
	ls.read = newLanes(base, func(l *lane, _ *batch.Lane[query]) batch.Worker[query] {
		return &reads{lane: l, waits: waits, about: about}
	})
}

// newLanes returns the lanes of one kind of work.
func newLanes[W work](base lane, worker func(*lane, *batch.Lane[W]) batch.Worker[W]) *batch.Lanes[W] {
	return batch.New(batch.Options[W]{
		Limits: batch.Limits{Requests: base.limits.BatchRequests, Bytes: base.limits.BatchBytes},
		Patience: base.patience,
		Worker: func(of *batch.Lane[W]) batch.Worker[W] {
			l := base
			l.setBusy = of.SetBusy
			return worker(&l, of)
		},
		Size:    func(w W) int { return w.head().msg.Size() },
		Arrived: func(w W) time.Time { return w.head().arrived },
		Stuck: func(late []W) {
			base.keeper.notice(errStuck)
			refuseAll(base.responder, late, errStuck)
		},
	})
}

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

// lane is what the work on one queue needs, whatever the kind.
type lane struct {
	*responder
	*wire
	store    *fdbpq.Store
	keeper   *keeper
	limits   Limits
	patience batch.Patience
	giveBack func(fdbpq.Lease) // returns an item that did not reach its consumer
	setBusy  func(bool)        // a transaction is under way

	queue   fdbpq.Queue
	session *fdbpq.Session // of the queue's transactions

	// Buffers of answers.
	out    []byte
	header headerWriter
}

// Begin turns to a queue.
func (l *lane) Begin(queue string) {
	l.queue, l.session = l.store.Queue(queue), l.store.Session()
}

// End lets others have the session.
func (l *lane) End() {
	l.session.Release()
	l.session = nil
}

// Common says whether an error is the store's and not one request's.
func (l *lane) Common(err error) bool { return isOutage(err) }

// update runs fn as one transaction that takes effect exactly once.
func (l *lane) update(fn func(kv.Tx) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.answerLimit.refresh()
	l.setBusy(true)
	defer l.setBusy(false)
	err := l.session.Update(ctx, fn)
	l.keeper.notice(err)
	return err
}

// view runs fn on one state of the store.
func (l *lane) view(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.answerLimit.refresh()
	err := l.store.View(ctx, fn)
	l.keeper.noticeRead(err)
	return err
}

func (l *lane) timeout() (context.Context, context.CancelFunc) {
	d := txTimeout
	if l.keeper.ready() != nil {
		d = txTimeoutDown
	}
	return context.WithTimeout(context.Background(), d)
}

// errStuck: the store has not said for long whether it has committed.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)
