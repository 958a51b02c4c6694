package bridge

import (
	"errors"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/bridge/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// aloneBytes bounds the content of a batch that has failed by itself. The rows
// of leased items may be twice as large as their content, and have to fit into
// a transaction.
const aloneBytes = 3 << 20

// takes is the work of a lane of pops, along with which leases are settled.
type takes struct {
	*lane
	bridge  *Bridge
	of      *batch.Lane[*pop]
	changes changes   // settlements that go without pops
	apart   []changer // these
}

// Work serves pops: first those that wait, in the order in which they came, then
// the new ones. What finds nothing is answered so, or waits. Settlements go along.
// By themselves they give those who wait no reason to look: what a settlement
// makes ready ends the queue's watch.
func (l *takes) Work(now batch.Batch[*pop]) {
	b, fresh, settling := l.bridge, now.Requests, now.Joined
	for look := now.Kicked || len(fresh) > 0; look; {
		attempt := b.attempt(l.queue.Name())
		t := take{takes: l, waiting: attempt, todo: fresh, settling: settling}
		if len(attempt.Pops) > 0 {
			t.todo = append(attempt.Pops, fresh...)
		}
		if len(t.todo) == 0 {
			break
		}
		b.peers.Turns.Await(l.queue.Name())
		t.run()
		b.peers.Turns.Done(l.queue.Name())
		if t.lost && !b.options.Exclusive { // or else it was no other bridge's
			b.peers.Turns.Lost(l.queue.Name())
		}
		fresh = t.finish()
		settling = nil
		look = len(fresh) > 0 || t.again
	}
	l.settle(settling)
}

// settle runs settlements without pops.
func (l *takes) settle(settling []*pop) {
	for _, r := range settling {
		l.apart = append(l.apart, r.settles)
	}
	batch.Run(l.apart, &l.changes)
	clear(l.apart)
	l.apart = l.apart[:0]
}

// take is one transaction's worth of pops, and of settlements.
type take struct {
	*takes
	waiting  waiting.Attempt[*pop]
	settling []*pop
	todo     []*pop     // those that waited, then new ones
	part     batch.Part // how many of them the transaction is for
	alone    bool       // the first one only, after it has failed
	most     int        // items that its batch is cut to; 0: as many as it asks for
	absent   []string   // reply subjects of those that waited and have gone
	failed   bool       // with settlements; without them it is not to fail for ever

	runs int  // of the transaction under way
	lost bool // a run of it was in vain

	// What the last run of the transaction did.
	queue   fdbpq.Queue             // within the transaction
	done    int                     // requests served, of those in its part
	again   bool                    // there is more to do now
	nothing map[fdbpq.Band]*failure // where there is nothing more, and why
	items   int
	bytes   int64
	acked   []*pop // those who want the next item and settled for it
	events  []fdbpq.Event
	watch   *kv.Watch
}

// run runs the transaction. When it fails, the settlements go without the pops.
// When a pop makes it fail, those before it run without it, and then it runs alone.
func (t *take) run() {
	started := time.Now()
	t.part = batch.NewPart(len(t.todo))
	for {
		t.runs = 0
		err := t.update(t.transaction)
		t.lost = t.lost || t.runs > 1
		switch {
		case err == nil:
			t.stats.ran(kindTake, len(t.settling)+t.done, started)
			t.bridge.events.items(t.events)
			return
		case isOutage(err):
			t.fail(len(t.todo), err)
			return
		case errors.Is(err, errAbsent):
			t.dropAbsent()
		case len(t.settling) > 0:
			t.settle(t.settling)
			t.settling, t.failed = nil, true
		case t.alone && !errors.Is(err, errCut):
			t.fail(1, err)
			return
		default:
			t.part.Shrink(t.done)
			t.alone = t.part.Len() == 1
		}
	}
}

func (t *take) fail(n int, err error) {
	f := explain(err)
	for _, r := range slices.Concat(t.settling, t.todo[:n]) {
		r.forget()
		r.failure = f
	}
	t.done, t.items, t.acked, t.watch = n, 0, nil, nil
	t.again = n < len(t.todo) || len(t.waiting.Beyond) > 0
}

func (t *take) transaction(tx kv.Tx) error {
	t.runs++
	t.gather()
	t.done, t.again, t.items, t.bytes, t.acked, t.events, t.watch = 0, false, 0, 0, nil, nil, nil
	clear(t.nothing)
	t.queue = t.lane.queue.In(tx)
	for _, r := range t.settling {
		events, err := r.settles.apply(tx, t.queue)
		if err != nil {
			return err
		}
		t.events = append(t.events, events...)
	}
	for t.done < t.part.Len() && !t.full() {
		end, waited := t.part.Len(), len(t.waiting.Pops)
		if t.done < waited {
			end = min(end, waited)
		} else if t.done == waited && t.passesOver() {
			break
		}
		n, err := t.step(tx, t.todo[t.done:end])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		t.done += n
	}
	if t.someAbsent() {
		return errAbsent
	}
	t.again = t.done < len(t.todo) || t.passesOver()
	if !t.again && !t.waiting.Watched && t.leavesWaiters() {
		t.watch = t.queue.Arrivals(tx)
	}
	return nil
}

// gather takes along what has arrived since the batch was made. Where bridges
// wait for each other, and lose to each other, it is this that makes a
// transaction worth a batch.
func (t *take) gather() {
	if t.alone || t.failed || t.part.Len() < len(t.todo) {
		return
	}
	most := t.limits.BatchRequests
	fresh, settling := t.of.Arrived(most-len(t.todo), most-len(t.settling))
	t.todo = append(t.todo[:len(t.todo):len(t.todo)], fresh...)
	t.settling = append(t.settling[:len(t.settling):len(t.settling)], settling...)
	t.part = batch.NewPart(len(t.todo))
}

// full says whether the transaction has done its share.
func (t *take) full() bool {
	limits := &t.limits
	return t.items >= limits.BatchRequests || t.bytes >= int64(limits.BatchBytes)
}

// passesOver says whether there may be something for waiting requests that this
// transaction does not try to serve: new ones have to stay behind them.
func (t *take) passesOver() bool {
	for _, band := range t.waiting.Beyond {
		if t.nothing[band] == nil {
			return true
		}
	}
	return false
}

// leavesWaiters says whether somebody waits after this transaction.
func (t *take) leavesWaiters() bool {
	if len(t.waiting.Beyond) > 0 {
		return true
	}
	for _, r := range t.todo[:t.done] {
		if r.keepsWaiting() {
			return true
		}
	}
	return false
}

// keepsWaiting says whether the request found nothing and has time left.
func (r *pop) keepsWaiting() bool {
	return r.ask.wait > 0 && r.failure != nil && r.failure.code == 404
}

// step serves some of the first requests and returns how many; 0 leaves them
// to the next transaction.
func (t *take) step(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	first.forget()
	if first.ask.limit > 1 && t.items > 0 {
		return 0, nil // together they might be too large
	}
	if first.settles != nil && !first.settles.tookEffect {
		settled, err := t.queue.Ack(tx, first.settles.lease)
		var lost *fdbpq.LostError
		if errors.As(err, &lost) {
			first.failure = explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		t.acked = append(t.acked, first)
		t.events = append(t.events, settled.Events...)
	}
	// A new pop with an id may have been answered before.
	if f := t.nothing[first.ask.band]; f != nil && (first.ask.id == "" || first.place != nil) {
		first.failure = f
		return 1, nil
	}
	if first.peeks {
		taken, err := t.lane.queue.Peek(tx.Snapshot(), first.ask.selection())
		if err != nil {
			return 0, err
		}
		first.seen(t.bridge, t.lane.queue.Name(), &taken)
		if len(taken.Items) == 0 {
			t.foundNothing(first)
		}
		return 1, nil
	}
	n := 1
	for n < len(todo) && t.items+n < t.limits.BatchRequests && todo[n].joins(first) {
		n++
	}
	return t.take(tx, todo[:n])
}

// joins says whether the request asks for the next item in just the same way.
func (r *pop) joins(first *pop) bool {
	return !first.peeks && !r.peeks && first.settles == nil && r.settles == nil && first.ask.plain() && r.ask.plain() &&
		r.ask.end == first.ask.end && r.ask.band == first.ask.band && r.ask.lease == first.ask.lease
}

// take takes items for requests that ask for one each, or for one that asks
// for more, and returns how many requests it has served.
func (t *take) take(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	sel := first.ask.selection()
	if len(todo) > 1 {
		sel.Limit = len(todo)
		sel.MaxBytes = int(max(1, int64(t.limits.BatchBytes)-t.bytes))
	}
	if t.alone {
		if t.most > 0 {
			sel.Limit = min(sel.Limit, t.most)
		}
		if sel.MaxBytes == 0 || sel.MaxBytes > aloneBytes {
			sel.MaxBytes = aloneBytes
		}
	}
	taken, leased, err := t.pick(tx, first, sel)
	if err != nil {
		return 0, err
	}
	t.events = append(t.events, taken.Events...)
	items := taken.Items
	if len(items) == 0 && taken.More {
		return 0, nil // expired items were in the way, and more are
	}
	if len(items) == 0 {
		first.failure = nothing(t.lane.queue.Name(), taken.Reason)
		t.foundNothing(first)
		return 1, nil
	}
	t.items += len(items)
	for i := range items {
		t.bytes += items[i].Size
	}
	if len(todo) == 1 {
		first.found, first.ready, first.leased = items, taken.Ready, leased
		return 1, nil
	}
	for i := range items {
		p := todo[i]
		p.forget()
		p.found, p.ready, p.leased = items[i:i+1:i+1], taken.Ready+int64(len(items)-1-i), leased
	}
	return len(items), nil
}

// foundNothing remembers that others who want the same band need not look.
func (t *take) foundNothing(r *pop) {
	if t.nothing == nil {
		t.nothing = make(map[fdbpq.Band]*failure)
	}
	t.nothing[r.ask.band] = r.failure
}

// pick takes or leases what is selected, and says for how long. Items that
// would not fit into an answer are left where they are.
func (t *take) pick(tx kv.Tx, r *pop, sel fdbpq.Selection) (taken fdbpq.Popped, lease time.Duration, err error) {
	queue := t.queue
	if lease = r.ask.lease; lease == 0 {
		config, err := queue.Config(tx)
		if err != nil {
			return taken, 0, err
		}
		lease = time.Duration(config.Lease)
	}
	if lease > 0 {
		taken, err = queue.Lease(tx, sel, lease)
	} else {
		taken, err = queue.Pop(tx, sel)
	}
	if err != nil {
		return taken, 0, err
	}
	for i := range taken.Items {
		f := t.room.unanswerable(queue.Name(), &taken.Items[i])
		if f != nil && i > 0 {
			t.most = i
			return taken, 0, errCut
		}
		if f != nil {
			return taken, 0, f
		}
	}
	return taken, lease, nil
}

// errCut makes a transaction run again with a batch that ends earlier.
var errCut = errors.New("batch ends at an item that does not fit into an answer")

// settled returns how many leases ended, and notes which of those who want the
// next item need not settle again: also one that has to look for it once more.
func (t *take) settled() int {
	for _, r := range t.acked {
		r.settles.tookEffect = true
		r.refusal = asService // what may fail now is the pop behind it
	}
	n := len(t.acked)
	for _, r := range t.settling {
		if r.settles.endsLease() {
			n++
		}
	}
	return n
}

// finish answers what was served and returns the new requests that were not.
func (t *take) finish() []*pop {
	b, queue := t.bridge, t.lane.queue.Name()
	waited := len(t.waiting.Pops)
	b.stats.moved(queue, flowOut, t.items)
	b.stats.moved(queue, flowSettled, t.settled())
	for _, r := range t.settling {
		answerChange(t.responder, r.settles)
	}
	for i, r := range t.todo[:t.done] {
		switch {
		case !r.keepsWaiting():
			if i < waited {
				b.waiting.Remove(r.place)
			}
			t.answerPop(r)
		case i < waited:
			b.waitOn(r)
		default:
			b.wait(r)
		}
	}
	for _, r := range t.todo[min(t.done, waited):waited] {
		b.waitOn(r)
	}
	if t.watch != nil {
		b.waiting.Watch(queue, t.watch)
	}
	return t.todo[max(t.done, waited):]
}
