package bridge

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
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
	push    *batch.Lanes[*push]
	imports *batch.Lanes[*importing]
	take    *batch.Lanes[*pop]
	change  *batch.Lanes[changer]
	read    *batch.Lanes[query]
}

func (ls *lanes) init(b *Bridge) {
	ls.push = newLanes(b, func(l *lane, _ *batch.Lane[*push]) batch.Worker[*push] { return &pushes{lane: l} })
	ls.imports = newLanes(b, func(l *lane, _ *batch.Lane[*importing]) batch.Worker[*importing] { return &imports{lane: l} })
	ls.take = newLanes(b, func(l *lane, of *batch.Lane[*pop]) batch.Worker[*pop] {
		return &takes{lane: l, of: of, changes: changes{lane: l}}
	})
	ls.change = newLanes(b, func(l *lane, _ *batch.Lane[changer]) batch.Worker[changer] { return &changes{lane: l} })
	ls.read = newLanes(b, func(l *lane, _ *batch.Lane[query]) batch.Worker[query] { return &reads{l} })
}

// newLanes returns the lanes of one kind of work.
func newLanes[W work](b *Bridge, worker func(*lane, *batch.Lane[W]) batch.Worker[W]) *batch.Lanes[W] {
	return batch.New(batch.Options[W]{
		Limits: batch.Limits{Requests: b.options.Limits.BatchRequests, Bytes: b.options.Limits.BatchBytes},
		// A transaction of which it is not known yet whether it was committed
		// may take as long as fdbpq's resolveTimeout.
		Patience: batch.Patience{First: txTimeout, Then: txTimeoutDown},
		Worker: func(of *batch.Lane[W]) batch.Worker[W] {
			return worker(&lane{bridge: b, setBusy: of.SetBusy}, of)
		},
		Size:    func(w W) int { return w.head().msg.Size() },
		Arrived: func(w W) time.Time { return w.head().arrived },
		Stuck: func(late []W) {
			b.notice(errStuck)
			refuseAll(b, late, errStuck)
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
	return []anyLanes{ls.push, ls.imports, ls.take, ls.change, ls.read}
}

func (ls *lanes) stop() {
	for _, kind := range ls.all() {
		kind.Stop()
	}
}

// lane is what the work on one queue needs, whatever the kind.
type lane struct {
	bridge  *Bridge
	setBusy func(bool) // a transaction is under way
	queue   fdbpq.Queue
	session *fdbpq.Session // of the queue's transactions

	// Buffers of answers.
	out    []byte
	header headerWriter
}

// Begin turns to a queue.
func (l *lane) Begin(queue string) {
	l.queue, l.session = l.bridge.store.Queue(queue), l.bridge.store.Session()
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
	l.bridge.room.look()
	l.setBusy(true)
	defer l.setBusy(false)
	err := l.session.Update(ctx, fn)
	l.bridge.notice(err)
	return err
}

// view runs fn on one state of the store.
func (l *lane) view(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.bridge.room.look()
	err := l.bridge.store.View(ctx, fn)
	l.bridge.noticeRead(err)
	return err
}

func (l *lane) timeout() (context.Context, context.CancelFunc) {
	d := txTimeout
	if l.bridge.keeper.ready() != nil {
		d = txTimeoutDown
	}
	return context.WithTimeout(context.Background(), d)
}

// errStuck: the store has not said for long whether it has committed.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)

// noticeRead is notice for what changes nothing. A read that took too long was
// perhaps a large one; upkeep tells soon enough when the store is away.
func (b *Bridge) noticeRead(err error) {
	if errors.Is(err, context.DeadlineExceeded) {
		b.options.Logger.Debug("read took too long", "error", err)
		return
	}
	b.notice(err)
}

// notice remembers that the store failed, for [Bridge.Ready].
func (b *Bridge) notice(err error) {
	if err != nil && isOutage(err) {
		b.options.Logger.Debug("transaction failed", "error", err)
		b.keeper.failed(err)
	}
}
