// Package desk is where requests meet the store. It has the parts that every kind of work on queues needs: [Desk] is one
// queue's access to the store, [Turns] serve many queues in one transaction, [Changes] are a queue's part in turns of changes,
// and [Keeper] knows whether the store commits.
//
// What it guarantees: a transaction takes effect once at most. Its requests are answered after the commit, or refused; if the
// result stays unknown, the answer says so. A request that waits behind a transaction that does not end is refused in time for
// its client. New items are added only where the store and the tenant
// have room. A tenant pays for the rows that its requests read and write.
//
// The desk names no kind of work. Kinds are packages above it, and the bridge has the table of them.
package desk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/events"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/meter"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// TxTimeout is how long a transaction may take, reruns included, before its
// requests are answered that the store does not commit. Clients wait 5 s by
// habit (the default of nats.go's JetStream), so the answer should come first.
const TxTimeout = 4 * time.Second

// TxTimeoutDown is the same while the store is known to fail: requests have already
// waited while others failed.
const TxTimeoutDown = time.Second

// Desk has the parts that every kind of work on one queue needs.
type Desk struct {
	*request.Responder
	*codec.Wire
	Events    *events.Announcer
	Store     *fdbpq.Store
	Schedules *schedule.Schedules
	Runners   *feeds.Runners
	Keeper    *Keeper
	Batch     batch.Limits // of a transaction
	Patience  batch.Patience
	Pace      batch.Patience // how long a transaction may take
	Slow      time.Duration  // how long the part of a queue in a turn may take; 0: see slowPart
	Admit     Admit
	Reserve   func() error                  // why the store serves only what makes room; nil: it does not
	Last      func() error                  // why it serves only what ends items, where Reserve says that it serves little
	Tenants   *tenants.Tenants              // nil: there are none
	Since     func(time.Time) time.Duration // time.Since, but in tests
	setBusy   func(bool)                    // a transaction is under way; nil: turns know it

	Queue fdbpq.Queue
	Meter meter.Meter // of the present transaction, if the queue has a tenant
}

// Begin turns to a queue.
func (l *Desk) Begin(queue string) { l.Queue = l.Store.Queue(queue) }

// Common reports whether an error concerns all requests of a batch: an outage, a full store, or a tenant that may have no
// further queue.
func (l *Desk) Common(err error) bool {
	var f *failure.Failure
	return failure.IsOutage(err) || errors.As(err, &f) && (f.Reason == protocol.ReasonStoreFull || f.Reason == protocol.ReasonQuotaQueues)
}

// Update runs a transaction that takes effect exactly once.
func (l *Desk) Update(fn func(kv.Tx) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	if l.setBusy != nil {
		l.setBusy(true)
		defer l.setBusy(false)
	}
	session := l.Store.Session()
	defer session.Release()
	err := session.Update(ctx, fn)
	l.Keeper.Notice(err)
	return err
}

// View runs fn on one state of the store.
func (l *Desk) View(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	err := l.Store.View(ctx, fn)
	l.Keeper.noticeRead(err)
	return err
}

// Metered returns the transaction, whose rows count if the queue has a tenant.
func (l *Desk) Metered(tx kv.Tx) kv.Tx {
	if l.Tenants == nil {
		return tx
	}
	return l.Meter.Tx(tx)
}

// Tenant returns the tenant of the queue, nil if there is none.
func (l *Desk) Tenant() *tenants.Tenant { return l.Tenants.OfQueue(l.Queue.Name()) }

// Weigh charges the rows of a transaction, as far as they cost more than was paid for its requests and items.
func (l *Desk) Weigh(paid int) {
	if cost := tenants.CostOfRows(l.Meter.End(), paid); cost > 0 {
		l.Tenant().Weigh(cost)
	}
}

// WeighEach charges the tenant of the queue for the rows of all requests.
func WeighEach[W Work](l *Desk, requests []W) {
	cost := 0
	for _, r := range requests {
		cost += r.Head().RowsCost
	}
	if cost > 0 {
		l.Tenant().Weigh(cost)
	}
}

// Receiving returns the queue for a transaction with new items of this many bytes, and the admission of the
// tenant, which the caller ends after the transaction. If the store or the tenant has no room, full says why: the queue then
// takes no new items, and still recognizes repeated pushes.
func (l *Desk) Receiving(items, bytes int) (queue fdbpq.Queue, to *tenants.Admission, full error) {
	queue = l.Queue
	if t := l.Tenants.OfQueue(queue.Name()); t != nil {
		to = t.Open()
		making, refused := to.Making()
		if refused != nil && !l.counted() {
			return queue.Full(refused).Making(func() error { return refused }), to, refused
		}
		queue = queue.Making(making)
	}
	if full = l.Admit(to, items, bytes); full != nil {
		queue = queue.Full(full)
	}
	return queue, to, full
}

// counted reports whether the queue counts among those of its tenant already. A transaction that may not make its queue
// fails for the queues that share it, too. So a tenant with too many queues is refused before.
func (l *Desk) counted() bool {
	var counted bool
	err := l.View(func(r kv.Reader) (err error) {
		counted, err = l.Queue.Counted(r)
		return err
	})
	return counted || err != nil
}

// Waited is how long a request has waited.
func (l *Desk) Waited(w Work) time.Duration { return l.Since(w.Head().Arrived) }

func (l *Desk) timeout() (context.Context, context.CancelFunc) {
	d := l.Pace.First
	if l.Keeper.Ready() != nil {
		d = l.Pace.Then
	}
	return context.WithTimeout(context.Background(), d)
}

// errStuck: the result of a commit has been unknown for too long.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)

// NewPool returns the pool of a kind of work that shares nothing with other queues: each queue has batches of its own.
func NewPool[W Work](base Desk, worker func(*Desk) batch.Worker[W]) *batch.Pool[W] {
	return batch.New(batch.Options[W]{
		Limits:   base.Batch,
		Patience: base.Patience,
		Worker: func(of *batch.Slot[W]) batch.Worker[W] {
			l := base
			l.setBusy = of.SetBusy
			return worker(&l)
		},
		Size:   func(w W) int { return w.Head().Size() },
		Waited: func(w W) time.Duration { return base.Waited(w) },
		Stuck:  func(late []W) { RefuseStuck(&base, late) },
	})
}

// RefuseStuck refuses requests that have waited for too long behind a transaction that does not end.
func RefuseStuck[W Work](l *Desk, late []W) {
	l.Keeper.Notice(errStuck)
	request.RefuseAll(l.Responder, late, errStuck)
}

// Turns take turns of requests. Part does the work of one queue in a turn.
type (
	Turns = turns.Turns[Work, kv.Tx]
	Part  = turns.Part[Work, kv.Tx]
)

// TurnOptions says which requests take turns together, and how.
type TurnOptions struct {
	// Part makes the part of a queue for requests of a kind. The desk is its own.
	Part func(kind int, l *Desk) Part

	// Weight is how many items a request has. Nil: each has one.
	Weight func(Work) int

	// Ahead reports whether a request goes ahead of others. Nil: no request does.
	Ahead func(Work) bool

	// Overlap lets turns of a queue overlap where other processes can open the store, too.
	Overlap turns.Overlap[Work]
}

const (
	// turnsOthers is how many turns may be under way on a store behind a network: more hide its latency. On a store of this process
	// alone one turn at a time costs least: two would be half as large.
	turnsOthers = 4

	// tenantShare bounds the requests of one tenant in a turn. Other tenants wait for the end of it, so fewer requests are better for
	// them. The tenant itself then needs more transactions.
	tenantShare = 8

	// slowPart is how long the part of a queue in a turn may take. Measured in wall time, so on a busy machine some queues run alone
	// without need.
	slowPart = 20 * time.Millisecond
)

// NewTurns returns turns. Each part works on a copy of base.
func NewTurns(base Desk, exclusive bool, t TurnOptions) *Turns {
	o := turns.Options[Work, kv.Tx]{
		Limits:   base.Batch,
		Turns:    1,
		Rerun:    exclusive, // that run holds the lock of commits
		Early:    !exclusive,
		Slow:     cmp.Or(base.Slow, slowPart),
		Patience: base.Patience,
		Part: func(kind int) Part {
			own := base
			return t.Part(kind, &own)
		},
		Update: base.Update,
		Outage: failure.IsOutage,
		Ran: func(done map[int]int, took time.Duration) {
			for kind, n := range done {
				base.Stats.Ran(request.Kind(kind), n, took)
			}
		},
		Weight: t.Weight,
		Size:   func(w Work) int { return w.Head().Size() },
		Ahead:  t.Ahead,
		Waited: base.Waited,
		Stuck:  func(late []Work) { RefuseStuck(&base, late) },
	}
	if t.Weight == nil {
		o.Weight = func(Work) int { return 1 }
	}
	if !exclusive {
		o.Turns, o.Overlap = turnsOthers, t.Overlap
	}
	if base.Tenants != nil {
		o.Owner, o.Share = subjects.Tenant, tenantShare
	}
	return turns.New(o)
}
