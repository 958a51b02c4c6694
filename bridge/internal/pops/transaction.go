package pops

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/tenants"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// aloneBytes bounds the content of a pop that made its transaction fail. The rows of
// leased items may be twice as large as their content, and have to fit into one
// transaction.
const aloneBytes = 3 << 20

// transaction is one transaction that settles leases and serves pops.
type transaction struct {
	*desk.Desk
	sight *listening.Sight

	settling []desk.Change
	todo     []*pop  // the waiting pops, then the new pops
	waited   int     // of them: the first, which wait
	attempt  attempt // to serve waiting pops
	tried    bool    // an earlier transaction of the turn has tried them

	kept *tenants.Admission // of bodies of results

	work     *fdbpq.Work
	queue    fdbpq.Queue   // within it
	left     *turns.Limits // what the whole turn has room for
	question question      // about the clients of the pops that it is about to serve
	results
}

// results are what the last run of a transaction has done.
type results struct {
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

// Do settles, and pops.
func (t *transaction) Do(tx kv.Tx, left *turns.Limits) (at int, err error) {
	t.question.drop()
	t.begin(left)
	tx = t.Metered(tx)
	err = t.Store.In(tx, func(w *fdbpq.Work) error {
		t.work, t.queue = w, t.Desk.Queue.Within(w)
		if at, err = t.settle(tx); err != nil {
			return err
		}
		return t.serve(tx)
	})
	if err != nil {
		return at + t.served, err
	}
	left.Requests, left.Bytes = left.Requests-t.items, left.Bytes-int(t.bytes)
	t.more = t.served < len(t.todo) || t.passesOver()
	if waits := !t.more && !t.attempt.Watched && t.leavesWaiting(); waits && t.freed {
		t.more = true // a watch of this transaction does not see what it freed
	} else if waits {
		t.watch = t.Desk.Queue.Arrivals(tx)
	}
	return at + t.served, nil
}

// begin forgets an earlier run.
func (t *transaction) begin(left *turns.Limits) {
	clear(t.empty)
	t.results, t.left = results{empty: t.empty}, left
}

// settle settles leases, and returns how many. With an error that is the index of the settlement that failed.
func (t *transaction) settle(tx kv.Tx) (n int, err error) {
	if leases := t.leases(); len(leases) > 0 {
		if err := t.queue.PrefetchKeys(tx, leases...); err != nil {
			return len(t.settling), err
		}
	}
	t.work.Keeping(t.kept.Keeping())
	at := desk.ChangeTx{Tx: tx, Queue: t.queue}
	for i, r := range t.settling {
		if !desk.ReserveServes(t.Desk, r) {
			continue
		}
		events, err := desk.Make(r, &at)
		if err != nil {
			return i, err
		}
		t.events = append(t.events, events...)
	}
	return len(t.settling), nil
}

// leases returns the leases that the transaction settles.
func (t *transaction) leases() (leases []fdbpq.Lease) {
	for _, r := range t.settling {
		leases = append(leases, *r.SettlesLease())
	}
	for _, r := range t.todo {
		if r.acks != nil && !r.acks.done {
			leases = append(leases, r.acks.lease)
		}
	}
	return leases
}

// serve pops.
func (t *transaction) serve(tx kv.Tx) error {
	for t.served < len(t.todo) && !t.full() {
		end := len(t.todo)
		if t.served < t.waited {
			end = t.waited
		} else if t.served == t.waited && !t.tried && t.passesOver() {
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
	t.askClients()
	return nil
}

// askClients asks about the clients of pops that the transaction is about to serve. All queues that share the transaction ask
// before any of them waits for the answer. Each run asks anew: an earlier one may have failed before it heard the answer, and
// clients go meanwhile.
func (t *transaction) askClients() {
	var of []*pop
	for _, r := range t.todo[:t.served] {
		if t.mustAsk(r) {
			of = append(of, r)
		}
	}
	if len(of) > 0 {
		t.question.ask(t.sight, of)
	}
}

// mustAsk reports whether a run of the transaction asks about the client of a pop for which it has items. It does if the pop
// has waited and nobody has asked before the transaction, or if the items would be lost with the client: if it pops them for
// good, has no id to repeat the pop, and is no link, which holds its items. If asking costs nothing, it also asks about a pop
// that has not waited.
func (t *transaction) mustAsk(r *pop) bool {
	if t.attempt.silent || r.peeks || r.gives != nil || len(r.found) == 0 {
		return false
	}
	waited, loses := r.place != nil || r.waited, r.leased == 0 && r.ask.ID == ""
	return waited && !r.asked || loses && (waited || t.sight.Local())
}

// Check makes the transaction run again without items for clients that have gone.
func (t *transaction) Check() bool {
	if t.question.asked == nil {
		return true
	}
	gone, answered := t.question.hear()
	t.attempt.silent = !answered // no further run waits for a silent server
	for _, r := range t.todo[:t.served] {
		r.gone = r.gone || gone[r.Msg.Reply]
	}
	return len(gone) == 0
}

// passesOver reports whether there may be items for waiting pops that the transaction does not try to serve. New pops
// must not get ahead of these.
func (t *transaction) passesOver() bool {
	for _, band := range t.attempt.Beyond {
		if t.empty[band] == nil {
			return true
		}
	}
	return false
}

// leavesWaiting reports whether a pop waits after this transaction.
func (t *transaction) leavesWaiting() bool {
	if len(t.attempt.Beyond) > 0 {
		return true
	}
	for _, r := range t.todo[:t.served] {
		if r.waitsOn() {
			return true
		}
	}
	return false
}

// full reports whether the transaction has reached the limits of a turn.
func (t *transaction) full() bool {
	return t.items >= t.left.Requests || t.bytes >= int64(t.left.Bytes)
}

// step serves one or more of the first pops, and returns their number. 0 leaves them to the next transaction.
func (t *transaction) step(tx kv.Tx, todo []*pop) (int, error) {
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
		first.acks.reserved = settled.Reserved
		first.ask.TakeOver(settled.Holder)
		t.acked = append(t.acked, first)
		t.events = append(t.events, settled.Events...)
		if err := t.noteFreed(); err != nil {
			return 0, err
		}
	}
	if first.gone {
		first.Failure = ErrGone
		return 1, nil
	}
	if f, err := t.reserved(tx, first); f != nil || err != nil {
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
		taken, err := t.queue.Peek(tx.Snapshot(), first.ask.Selection(&t.Limit, t.Desk.Queue.Name()))
		if refusedByKeys(err) {
			first.Failure = failure.Explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		seen(first, &t.Limit, t.Desk.Queue.Name(), &taken)
		if len(taken.Items) == 0 {
			t.foundNothing(first)
			t.tryAgainIn(taken.Retry)
		}
		return 1, nil
	}
	return t.pop(tx, t.alike(todo))
}

// alike returns the first pops, as many as one read can serve.
func (t *transaction) alike(todo []*pop) []*pop {
	n := 1
	for n < len(todo) && t.items+n < t.left.Requests && n != todo[0].most && todo[n].sameAs(todo[0]) {
		n++
	}
	return todo[:n]
}

// pop pops items for pops that ask for one item each, or for a single pop that asks for several. It returns the number
// of pops that it has served.
func (t *transaction) pop(tx kv.Tx, todo []*pop) (int, error) {
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
		first.Failure, first.final = failure.NothingIn(t.Desk.Queue.Name(), first.ask.Band, &taken), taken.Final
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

// noteFreed notes whether a lease that has ended kept other items of its key back: bands that were empty may have items now.
func (t *transaction) noteFreed() error {
	freed, err := t.work.Freed(t.Desk.Queue.Name())
	if freed {
		clear(t.empty)
		t.freed = true
	}
	return err
}

// give has a giver serve its request.
func (t *transaction) give(tx kv.Tx, r *pop) (int, error) {
	given, err := r.gives.Give(&Giving{tx, t.Store, t.queue, &r.Subject, t.selection([]*pop{r}), &t.Limit})
	if err != nil {
		return 0, err
	}
	t.ended, t.events = t.ended+given.Ended, append(t.events, given.Events...)
	if given.Ended > 0 {
		if err := t.noteFreed(); err != nil {
			return 0, err
		}
	}
	switch {
	case given.More:
		return 0, nil
	case given.Fits > 0:
		r.most = given.Fits
		return 0, errCut
	case given.Failure != nil:
		r.Failure, r.final = given.Failure, given.Final
		if r.waited && !r.final {
			r.Failure = errWaited
		}
		t.tryAgainIn(given.Retry)
		return 1, nil
	}
	r.found = given.Items
	t.items += len(given.Items)
	t.bytes += int64(given.Bytes)
	if !given.Repeated {
		t.popped += len(given.Items)
	}
	return 1, nil
}

// foundNothing notes for the other pops of a band that the band is empty.
func (t *transaction) foundNothing(r *pop) {
	if t.empty == nil {
		t.empty = make(map[fdbpq.Band]*failure.Failure)
	}
	t.empty[r.ask.Band] = r.Failure
}

// tryAgainIn notes the time until a pop that found nothing may find an item.
func (t *transaction) tryAgainIn(d time.Duration) {
	if d > 0 && (t.retry == 0 || d < t.retry) {
		t.retry = d
	}
}
