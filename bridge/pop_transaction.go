package bridge

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/peers"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// aloneBytes bounds the content of a pop that made its transaction fail. The rows of
// leased items may be twice as large as their content, and have to fit into one
// transaction.
const aloneBytes = 3 << 20

// pops is the work of a lane of pops. Its transactions also settle leases.
type pops struct {
	answers
	waits     *waits
	owners    *peers.Owners
	asks      *explain.Asks
	exclusive bool // only this process can open the store
	batches   *batch.Lane[*pop, *settlement]
	settles   desk.ChangeWorker[*settlement] // runs settlements without pops
}

// popTransaction is one transaction that serves pops and settles leases.
type popTransaction struct {
	*pops
	waiting  waiting.Attempt[*pop]
	settling []*settlement
	todo     []*pop     // the waiting pops, then the new pops
	part     batch.Part // the first pops of todo, which the transaction tries

	retrySingle    bool // it tries only the first pop, which made it fail
	maxAnswerItems int  // of that pop; 0: as many as the pop asks for
	reducedBatch   bool // it has failed, and tries fewer pops
	silent         bool // the server did not say in time which clients have gone

	question *listening.Question // about the clients of the pops that it is about to serve; nil: none

	// failedTogether: it failed with the settlements, which run without it now. No settlement joins it any more, or it
	// might fail again and again.
	failedTogether bool

	servesUnowned bool        // it serves its pops, although another bridge owns the queue
	work          *fdbpq.Work // the transaction
	queue         fdbpq.Queue // within it
	popResults                // of the last run
}

// popResults are what one run of a popTransaction has done.
type popResults struct {
	served int                             // the first pops of todo
	more   bool                            // another transaction has more to serve
	empty  map[fdbpq.Band]*failure.Failure // bands without an item, and why
	items  int
	popped int // items, without those of an earlier attempt
	ended  int // items that the takers of links have
	bytes  int64
	acked  []*pop        // pops of a +NXT whose leases were acknowledged
	freed  bool          // one of these leases kept another item of its key back
	retry  time.Duration // until a pop that found nothing may find something; 0: it cannot
	events []fdbpq.Event
	watch  *kv.Watch
}

// run runs the transaction. When it fails with settlements, these run without the pops. When the store refuses one pop,
// the transaction runs again without that pop. When one pop makes it fail for another reason, the pops before it run
// first, and then it runs alone.
func (t *popTransaction) run() {
	started := time.Now()
	t.tryAll()
	for {
		err := t.Update(batch.Job[kv.Tx]{Weight: t.weight(), Begin: t.gather, Again: t.lost, Prefetch: t.prefetch, Do: t.transaction, Check: t.check})
		t.unasked()
		t.Weigh(len(t.settling) + max(t.served, t.items))
		switch {
		case err == nil:
			t.Stats.Ran(request.KindPop, len(t.settling)+t.served, time.Since(started))
			t.pops.Events.Items(t.events)
			return
		case failure.IsOutage(err):
			t.fail(len(t.todo), err)
			return
		case errors.Is(err, errOwned):
			if t.passOn(); len(t.todo)+len(t.settling) == 0 {
				t.popResults = popResults{}
				return
			}
		case len(t.settling) > 0:
			batch.Run(t.settling, &t.settles)
			t.settling, t.failedTogether = nil, true
		case isAnswer(err):
			t.todo[t.served].refused = failure.Explain(err)
		case t.retrySingle && !errors.Is(err, errCut):
			t.fail(1, err)
			return
		default:
			t.reducedBatch = true
			t.part.Shrink(t.served)
			t.retrySingle = t.part.Len() == 1
		}
	}
}

// tryAll has the transaction try all pops, or the first one if that runs alone.
func (t *popTransaction) tryAll() {
	n := len(t.todo)
	if t.retrySingle {
		n = min(1, n)
	}
	t.part = batch.NewPart(n)
}

// weight bounds the number of items and settlements of the transaction.
func (t *popTransaction) weight() int {
	n := len(t.settling)
	for _, r := range t.todo {
		n += r.ask.Limit
	}
	return n
}

// prefetch begins the reads of the transaction.
func (t *popTransaction) prefetch(tx kv.Tx) {
	if leases := t.leases(); len(leases) > 0 {
		t.Lane.Queue.PrefetchLeases(tx, leases...)
	}
	if todo := t.todo[:t.part.Len()]; len(todo) > 0 && !todo[0].peeks {
		t.Lane.Queue.PrefetchPop(tx, t.selection(t.alike(todo)), todo[0].ask.Lease)
	}
}

// isAnswer reports whether the error is the answer to one pop. Otherwise it is an error of the store.
func isAnswer(err error) bool {
	var f *failure.Failure
	var lost *fdbpq.LostError
	return errors.As(err, &f) || errors.As(err, &lost) || errors.Is(err, fdbpq.ErrPopIDReused) ||
		errors.Is(err, fdbpq.ErrRemembered) || errors.Is(err, fdbpq.ErrNoRoom)
}

func (t *popTransaction) fail(n int, err error) {
	f := failure.Explain(err)
	for _, r := range t.settling {
		r.Failure = f
	}
	for _, r := range t.todo[:n] {
		r.forget()
		r.Failure = f
	}
	t.served, t.items, t.popped, t.ended, t.acked, t.watch = n, 0, 0, 0, nil, nil
	t.more = n < len(t.todo) || len(t.waiting.Beyond) > 0
}

func (t *popTransaction) transaction(tx kv.Tx) error {
	clear(t.empty)
	t.popResults = popResults{empty: t.empty}
	t.unasked()
	tx = t.Metered(tx)
	err := t.Store.In(tx, func(w *fdbpq.Work) error {
		t.work, t.queue = w, t.Lane.Queue.Within(w)
		return t.serve(tx)
	})
	if err != nil {
		return err
	}
	t.more = t.served < len(t.todo) || t.passesOver()
	if waits := !t.more && !t.waiting.Watched && t.leavesWaiting(); waits && t.freed {
		t.more = true // a watch of this transaction does not see what it freed
	} else if waits {
		t.watch = t.Lane.Queue.Arrivals(tx)
	}
	return nil
}

// serve settles and pops.
func (t *popTransaction) serve(tx kv.Tx) error {
	if leases := t.leases(); len(leases) > 0 {
		if err := t.queue.PrefetchKeys(tx, leases...); err != nil {
			return err
		}
	}
	at := desk.ChangeTx{Tx: tx, Queue: t.queue}
	for _, r := range t.settling {
		if !desk.ReserveServes(t.Lane, r) {
			continue
		}
		events, err := r.Apply(&at)
		if err != nil {
			return err
		}
		t.events = append(t.events, events...)
	}
	for t.served < t.part.Len() && !t.full() {
		end, waited := t.part.Len(), len(t.waiting.Pops)
		if t.served < waited {
			end = min(end, waited)
		} else if t.served == waited && t.passesOver() {
			break
		}
		n, err := t.step(tx, t.todo[t.served:end])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		t.served += n
	}
	t.ask()
	return nil
}

// gather adds the requests that have arrived since the batch was made: the transaction may have waited for its turn, or
// run again. It must not have read anything yet, or a pop could pass over an item whose push was acknowledged before
// the pop was sent.
func (t *popTransaction) gather() {
	if t.retrySingle || t.failedTogether || t.part.Len() < len(t.todo) {
		return
	}
	limit := t.Batch.Requests
	fresh, settling := t.batches.Arrived(limit-len(t.todo), limit-len(t.settling))
	t.todo = append(t.todo[:len(t.todo):len(t.todo)], fresh...)
	t.settling = append(t.settling[:len(t.settling):len(t.settling)], settling...)
	t.part = batch.NewPart(len(t.todo))
}

// passesOver reports whether there may be items for waiting pops that the transaction does not try to serve. New pops
// must not get ahead of these.
func (t *popTransaction) passesOver() bool {
	for _, band := range t.waiting.Beyond {
		if t.empty[band] == nil {
			return true
		}
	}
	return false
}

// leavesWaiting reports whether a pop waits after this transaction.
func (t *popTransaction) leavesWaiting() bool {
	if len(t.waiting.Beyond) > 0 {
		return true
	}
	for _, r := range t.todo[:t.served] {
		if r.keepsWaiting() {
			return true
		}
	}
	return false
}

// full reports whether the transaction has reached the limits of a batch.
func (t *popTransaction) full() bool {
	return t.items >= t.Batch.Requests || t.bytes >= int64(t.Batch.Bytes)
}

// step serves one or more of the first pops, and returns their number. 0 leaves them to the next transaction.
func (t *popTransaction) step(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	first.forget()
	if first.ask.Limit > 1 && t.items > 0 && !t.hasRoom(first) {
		return 0, nil // the answers together might be too large
	}
	if first.refused != nil {
		if first.refused.Code == 413 && first.ask.Repeats {
			return t.popNothing(tx, first, first.refused)
		}
		first.Failure = first.refused
		return 1, nil
	}
	acknowledges := first.acks != nil && !first.acks.done
	if acknowledges {
		settled, err := t.queue.Ack(tx, first.acks.lease)
		var lost *fdbpq.LostError
		if errors.As(err, &lost) && first.ask.Repeats { // the first attempt may have settled it
			return t.popNothing(tx, first, failure.Explain(err))
		}
		if errors.As(err, &lost) {
			first.Failure = failure.Explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		first.ask.TakeOver(settled.Holder)
		t.acked = append(t.acked, first)
		t.events = append(t.events, settled.Events...)
		freed, err := t.work.Freed(t.Lane.Queue.Name())
		if err != nil {
			return 0, err
		}
		if freed {
			clear(t.empty)
			t.freed = true
		}
	}
	if first.gone {
		first.Failure = errGone
		return 1, nil
	}
	if f, err := reserved(t, tx, first); f != nil || err != nil {
		first.Failure = f
		return 1, err
	}
	if first.gives != nil {
		return t.give(tx, first)
	}
	// A new pop with an id may be the repetition of an answered one. That of a +NXT says why it finds nothing behind its own
	// acknowledgement.
	if f := t.empty[first.ask.Band]; f != nil && !acknowledges && (first.ask.ID == "" || first.place != nil) {
		first.Failure = f
		err := t.mayAsk(tx, first)
		if refusedByKeys(err) {
			first.Failure, err = failure.Explain(err), nil
		}
		return 1, err
	}
	if first.peeks {
		taken, err := t.queue.Peek(tx.Snapshot(), first.ask.Selection(&t.Limit, t.Lane.Queue.Name()))
		if refusedByKeys(err) {
			first.Failure = failure.Explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		first.seen(&t.Limit, t.Lane.Queue.Name(), &taken)
		if len(taken.Items) == 0 {
			t.foundNothing(first)
			t.tryAgainIn(taken.Retry)
		}
		return 1, nil
	}
	return t.pop(tx, t.alike(todo))
}

// alike returns the first pops, as many as one read can serve.
func (t *popTransaction) alike(todo []*pop) []*pop {
	n := 1
	for n < len(todo) && t.items+n < t.Batch.Requests && todo[n].sameAs(todo[0]) {
		n++
	}
	return todo[:n]
}

// sameAs reports whether one read can serve both pops: each asks for one item, from the same end and band, under the
// same lease.
func (r *pop) sameAs(first *pop) bool {
	return first.shares() && r.shares() &&
		r.ask.End == first.ask.End && r.ask.Band == first.ask.Band && r.ask.Lease == first.ask.Lease && r.ask.Confirm == first.ask.Confirm
}

// shares reports whether one read can serve the pop together with others.
func (r *pop) shares() bool {
	return !r.peeks && !r.gone && r.gives == nil && r.acks == nil && r.ask.Plain()
}

// pop pops items for pops that ask for one item each, or for a single pop that asks for several. It returns the number
// of pops that it has served.
func (t *popTransaction) pop(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	sel := t.selection(todo)
	taken, err := t.popOrLease(tx, first, sel)
	if refusedByKeys(err) {
		first.Failure = failure.Explain(err)
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	t.events = append(t.events, taken.Events...)
	items := taken.Items
	if len(items) == 0 && taken.More {
		return 0, nil // it removed expired items, and more are left
	}
	if len(items) == 0 {
		first.Failure, first.final = failure.NothingIn(t.Lane.Queue.Name(), first.ask.Band, &taken), taken.Final
		switch {
		case first.waited:
			first.Failure = errWaited
		case !taken.Final: // which says nothing about the queue
			t.foundNothing(first)
			t.tryAgainIn(taken.Retry)
		}
		return 1, nil
	}
	t.items += len(items)
	if !taken.Repeated {
		t.popped += len(items)
	}
	for i := range items {
		t.bytes += items[i].Size
	}
	if len(todo) == 1 {
		first.found, first.ready, first.leased = items, taken.Ready, taken.Leased
		return 1, nil
	}
	for i := range items {
		p, confirms := todo[i], first.confirms
		p.forget()
		p.confirms = confirms
		p.found, p.ready, p.leased = items[i:i+1:i+1], taken.Ready+int64(len(items)-1-i), taken.Leased
	}
	return len(items), nil
}

// foundNothing notes for the other pops of a band that the band is empty.
func (t *popTransaction) foundNothing(r *pop) {
	if t.empty == nil {
		t.empty = make(map[fdbpq.Band]*failure.Failure)
	}
	t.empty[r.ask.Band] = r.Failure
}

// tryAgainIn notes the time until a pop that found nothing may find an item.
func (t *popTransaction) tryAgainIn(d time.Duration) {
	if d > 0 && (t.retry == 0 || d < t.retry) {
		t.retry = d
	}
}

// errOwned ends a transaction of pops on a queue that another bridge owns.
var errOwned = errors.New("another bridge pops the queue")

// lost notes that the transaction has lost a conflict. If another bridge owns the queue, the transaction ends, and the
// owner gets the pops: here they would lose again and again.
func (t *popTransaction) lost() error {
	if t.exclusive { // it conflicted with another transaction of this bridge
		return nil
	}
	t.owners.Lost(t.Lane.Queue.Name())
	if owner, own := t.owners.Owner(t.Lane.Queue.Name()); owner == "" || own || t.servesUnowned {
		return nil
	}
	return errOwned
}

// passOn passes the new pops on to the owner of the queue. Pops that wait, or have waited, stay: their time runs here, and
// the rest of their messages would ask for something else.
func (t *popTransaction) passOn() {
	waited := len(t.waiting.Pops)
	kept := t.todo[:waited:waited]
	for _, r := range t.todo[waited:] {
		if r.waited || r.peeks || r.acks != nil || !t.owners.Pass(t.Lane.Queue.Name(), r.Msg) {
			kept = append(kept, r)
			continue
		}
		t.Gate.Leave(&r.Request)
		r.End()
	}
	t.todo, t.servesUnowned = kept, true
	t.tryAll()
}
