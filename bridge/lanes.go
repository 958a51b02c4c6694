package bridge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/codec"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/meter"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	feeds "github.com/pqbridge/pqbridge/bridge/internal/sources"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
	"github.com/pqbridge/pqbridge/fdbpq/schedule"
	"github.com/pqbridge/pqbridge/fdbpq/source"
	"github.com/pqbridge/pqbridge/protocol"
	"github.com/pqbridge/pqbridge/subjects"
)

// txTimeout is how long a transaction may take, reruns included, before its
// requests are answered that the store does not commit. Clients wait 5 s by
// habit (the default of nats.go's JetStream), so the answer should come first.
const txTimeout = 4 * time.Second

// txTimeoutDown is the same while the store is known to fail: requests have already
// waited while others failed.
const txTimeoutDown = time.Second

// lane has the parts that every kind of work on one queue needs.
type lane struct {
	*request.Responder
	*codec.Wire
	store     *fdbpq.Store
	schedules *schedule.Schedules
	sources   *source.Sources
	runners   *feeds.Runners
	keeper    *keeper
	limits    Limits
	patience  batch.Patience
	pace      batch.Patience                                      // how long a transaction may take
	slow      time.Duration                                       // see slowBatch; 0: that
	room      func(to *tenants.Admission, items, bytes int) error // why a transaction adds no new items
	reserve   func() error                                        // why the store serves only what makes room; nil: it does not
	tenants   *tenants.Tenants                                    // nil: there are none
	maxWait   time.Duration                                       // batch.Limits.Wait
	since     func(time.Time) time.Duration                       // time.Since, but in tests
	giveBack  func(fdbpq.Lease)                                   // returns an item that did not reach its consumer
	sent      *listening.Sent
	asks      *request.Asks
	explainer *explain.Explainer
	setBusy   func(bool) // a transaction is under way
	shared    *batch.Shared[kv.Tx]

	queue fdbpq.Queue
	meter meter.Meter // of the present transaction, if the queue has a tenant

	// Buffers of answers.
	out    []byte
	lines  []byte
	header codec.HeaderWriter
}

// Begin turns to a queue.
func (l *lane) Begin(queue string) { l.queue = l.store.Queue(queue) }

// Common reports whether the store caused an error, and not one request.
func (l *lane) Common(err error) bool {
	var f *failure.Failure
	return failure.IsOutage(err) || errors.As(err, &f) && (f.Reason == protocol.ReasonStoreFull || f.Reason == protocol.ReasonQuotaQueues)
}

// update runs a job on the lane's queue in a transaction that takes effect exactly once.
func (l *lane) update(job batch.Job[kv.Tx]) (err error) {
	job.Key = l.queue.Name()
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	l.setBusy(true)
	defer l.setBusy(false)
	err = l.shared.Update(ctx, job)
	l.keeper.notice(err)
	return err
}

// view runs fn on one state of the store.
func (l *lane) view(fn func(kv.Reader) error) error {
	ctx, cancel := l.timeout()
	defer cancel()
	l.Limit.Refresh()
	err := l.store.View(ctx, fn)
	l.keeper.noticeRead(err)
	return err
}

// metered returns the transaction, whose rows count if the queue has a tenant.
func (l *lane) metered(tx kv.Tx) kv.Tx {
	if l.tenants == nil {
		return tx
	}
	return l.meter.Tx(tx)
}

// tenant returns the tenant of the queue, nil if there is none.
func (l *lane) tenant() *tenants.Tenant { return l.tenants.OfQueue(l.queue.Name()) }

// weigh charges the rows of a transaction, as far as they cost more than was paid for its requests and items.
func (l *lane) weigh(paid int) {
	if cost := tenants.CostOfRows(l.meter.End(), paid); cost > 0 {
		l.tenant().Weigh(cost)
	}
}

// weighEach charges requests for the rows of each.
func weighEach[W work](l *lane, requests []W) {
	cost := 0
	for _, r := range requests {
		cost += r.Head().RowsCost
	}
	if cost > 0 {
		l.tenant().Weigh(cost)
	}
}

// itemRows estimates the bytes that an item takes in the store beside its content.
const itemRows = 512

// receiving returns the queue of the lane for a transaction with new items of this many bytes. While the store takes no
// new items, the queue refuses them for the reason full, and still recognizes repeated pushes. The caller ends to behind
// the transaction.
func (l *lane) receiving(items, bytes int) (queue fdbpq.Queue, to *tenants.Admission, full error) {
	queue = l.queue
	if t := l.tenants.OfQueue(queue.Name()); t != nil {
		to = t.Open()
		making, refused := to.Making()
		if refused != nil && !l.counted() {
			return queue.Full(refused).Making(func() error { return refused }), to, refused
		}
		queue = queue.Making(making)
	}
	if full = l.room(to, items, bytes); full != nil {
		queue = queue.Full(full)
	}
	return queue, to, full
}

// counted reports whether the queue counts among those of its tenant already. A transaction that may not make its queue
// fails for the queues that share it, too. So a tenant with too many queues is refused before.
func (l *lane) counted() bool {
	var counted bool
	err := l.view(func(r kv.Reader) (err error) {
		counted, err = l.queue.Counted(r)
		return err
	})
	return counted || err != nil
}

// storeFull refuses new items for which the store has no room.
func storeFull(err error) error {
	return &failure.Failure{Code: 429, Text: err.Error(), Reason: protocol.ReasonStoreFull}
}

// waited is how long a request has waited.
func (l *lane) waited(w work) time.Duration { return l.since(w.Head().Arrived) }

func (l *lane) timeout() (context.Context, context.CancelFunc) {
	d := l.pace.First
	if l.keeper.ready() != nil {
		d = l.pace.Then
	}
	return context.WithTimeout(context.Background(), d)
}

// errStuck: the result of a commit has been unknown for too long.
var errStuck = fmt.Errorf("%w: a transaction does not end", kv.ErrUnavailable)

// lanes has the lanes of each kind of work. Each kind has a lane for every queue with such work, so a queue's pushes do
// not wait for its pops.
type lanes struct {
	responder *request.Responder
	exclusive bool // only this process can open the store
	owners    *peers.Owners
	order     leaseOrder
	bundles   bundleReader
	sent      listening.Sent
	shared    []*batch.Shared[kv.Tx] // of each kind that changes something

	push    *batch.Lanes[*push, batch.Alone]
	imports *batch.Lanes[*importing, batch.Alone]
	pop     *batch.Lanes[*pop, *settlement]
	change  *batch.Lanes[changer, batch.Alone]
	bulk    *batch.Lanes[*bulk, batch.Alone]
	bulks   bulkQueues
	read    *batch.Lanes[query, batch.Alone]

	entrances [kinds]entrance
}

// init makes the lanes, each of them from a base.
func (ls *lanes) init(base lane, exclusive bool, waits *waits, owners *peers.Owners, about *about) {
	ls.responder, ls.exclusive, ls.owners = base.Responder, exclusive, owners
	ls.order.init(func(w work) { w.(ordered).start(ls) })
	ls.bundles.init(ls.startSettlement)
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
	ls.bulks.all = make(map[string]bool)
	ls.bulk = newLanes(sharing(), func(l *lane) batch.Worker[*bulk, batch.Alone] { return &bulks{lane: l, queues: &ls.bulks} })
	base.maxWait = queryWait / 2
	ls.read = newLanes(base, func(l *lane) batch.Worker[query, batch.Alone] {
		return &reads{lane: l, waits: waits, about: about}
	})
	ls.open()
}

// newLanes returns the lanes of a kind of work that no other request joins.
func newLanes[W work](base lane, worker func(*lane) batch.Worker[W, batch.Alone]) *batch.Lanes[W, batch.Alone] {
	return batch.New(laneOptions(base, func(l *lane, _ *batch.Lane[W, batch.Alone]) batch.Worker[W, batch.Alone] { return worker(l) }))
}

func laneOptions[W work, J any](base lane, worker func(*lane, *batch.Lane[W, J]) batch.Worker[W, J]) batch.Options[W, J] {
	return batch.Options[W, J]{
		Limits:   batch.Limits{Requests: base.limits.BatchRequests, Bytes: base.limits.BatchBytes, Wait: base.maxWait},
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

// refuseStuck refuses requests that have waited for too long behind a transaction that does not end.
func refuseStuck[W work](l *lane, late []W) {
	l.keeper.notice(errStuck)
	request.RefuseAll(l.Responder, late, errStuck)
}

// The number of shared transactions of one kind of work under way at a time. More transactions are smaller and cost
// more. Fewer make queues wait for each other. On a store behind a network more transactions hide its latency.
const (
	sharedExclusive = 2
	sharedOthers    = 4
)

// newShared returns the transactions of one kind of work, which several queues may share.
func newShared(base *lane, exclusive bool) *batch.Shared[kv.Tx] {
	store, running := base.store, sharedOthers
	if exclusive {
		running = sharedExclusive
	}
	options := batch.SharedOptions[kv.Tx]{
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
	}
	if base.tenants != nil {
		options.Owner, options.Share = subjects.Tenant, tenantShare
	}
	return batch.NewShared(options)
}

// tenantShare bounds the requests of one tenant in a shared transaction. Other tenants wait for the end of it, so fewer
// requests are better for them. The tenant itself then needs more transactions.
const tenantShare = 8

// slowBatch is how long the part of a queue in a shared transaction may take. Measured in wall time, so on a busy machine
// some queues run alone without need.
const slowBatch = 20 * time.Millisecond

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
func (ls *lanes) submit(w work) {
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
		kindPush:       entranceTo(ls.push),
		kindImport:     entranceTo(ls.imports),
		kindPop:        entranceTo(ls.pop),
		kindPeek:       entranceOf(ls.peek),
		kindSettlement: entranceOf(func(_ string, s *settlement) { ls.bundles.submit(s) }),
		kindQuery:      entranceOf(ls.query),
		kindChange:     entranceTo(ls.change),
		kindBulk:       entranceOf(ls.enterBulk),
	}
}

// peek hands a peek to the pops that wait, or to the queries.
func (ls *lanes) peek(queue string, p *pop) {
	if p.ask.Wait == 0 {
		ls.query(queue, p)
	} else {
		ls.pop.Submit(queue, p)
	}
}

// enterBulk hands a page of a bulk operation to its lane, or refuses it.
func (ls *lanes) enterBulk(queue string, b *bulk) {
	if ls.bulks.enter(queue) {
		ls.bulk.Submit(queue, b)
	} else {
		ls.responder.Refuse(&b.Request, errBulkBusy)
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
	work

	// start hands it to its lane.
	start(*lanes)
}

// inOrder starts a settlement after the earlier settlements of its lease.
func (ls *lanes) inOrder(s ordered, place *orderPlace) {
	if ls.order.add(place, s) {
		s.start(ls)
	}
}

// query hands a query to its lane, or refuses it.
func (ls *lanes) query(queue string, q query) {
	if !ls.read.Submit(queue, q) {
		ls.responder.Refuse(q.Head(), errSlowQueries)
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
