package bridge

import (
	"errors"
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/failure"
	"github.com/pqbridge/pqbridge/bridge/internal/listening"
	"github.com/pqbridge/pqbridge/bridge/internal/turns"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// aloneBytes bounds the content of a pop that made its transaction fail. The rows of
// leased items may be twice as large as their content, and have to fit into one
// transaction.
const aloneBytes = 3 << 20

// popTransaction is one transaction that settles leases and serves pops.
type popTransaction struct {
	settling []*settlement
	todo     []*pop // the waiting pops, then the new pops
	waited   int    // of them: the first, which wait

	work     *fdbpq.Work
	queue    fdbpq.Queue         // within it
	left     *turns.Room         // what the whole turn has room for
	question *listening.Question // about the clients of the pops that it is about to serve; nil: none
	popResults
}

// popResults are what the last run of a transaction has done.
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

// Do settles, and pops.
func (l *pops) Do(tx kv.Tx, left *turns.Room) (at int, err error) {
	l.unasked()
	l.begin(left)
	tx = l.Metered(tx)
	err = l.Store.In(tx, func(w *fdbpq.Work) error {
		l.work, l.queue = w, l.Lane.Queue.Within(w)
		if at, err = l.settle(tx); err != nil {
			return err
		}
		return l.serve(tx)
	})
	if err != nil {
		return at + l.served, err
	}
	left.Requests, left.Bytes = left.Requests-l.items, left.Bytes-int(l.bytes)
	l.more = l.served < len(l.todo) || l.passesOver()
	if waits := !l.more && !l.attempt.Watched && l.leavesWaiting(); waits && l.freed {
		l.more = true // a watch of this transaction does not see what it freed
	} else if waits {
		l.watch = l.Lane.Queue.Arrivals(tx)
	}
	return at + l.served, nil
}

// begin forgets an earlier run.
func (l *pops) begin(left *turns.Room) {
	clear(l.empty)
	l.popResults, l.left = popResults{empty: l.empty}, left
}

// settle settles leases, and returns how many. With an error that is the index of the settlement that failed.
func (l *pops) settle(tx kv.Tx) (n int, err error) {
	if leases := l.leases(); len(leases) > 0 {
		if err := l.queue.PrefetchKeys(tx, leases...); err != nil {
			return len(l.settling), err
		}
	}
	at := desk.ChangeTx{Tx: tx, Queue: l.queue}
	for i, r := range l.settling {
		if !desk.ReserveServes(l.Lane, r) {
			continue
		}
		events, err := r.Apply(&at)
		if err != nil {
			return i, err
		}
		l.events = append(l.events, events...)
	}
	return len(l.settling), nil
}

// leases returns the leases that the transaction settles.
func (l *pops) leases() (leases []fdbpq.Lease) {
	for _, r := range l.settling {
		leases = append(leases, r.Lease)
	}
	for _, r := range l.todo {
		if r.acks != nil && !r.acks.done {
			leases = append(leases, r.acks.lease)
		}
	}
	return leases
}

// serve pops.
func (l *pops) serve(tx kv.Tx) error {
	for l.served < len(l.todo) && !l.full() {
		end := len(l.todo)
		if l.served < l.waited {
			end = l.waited
		} else if l.served == l.waited && !l.tried && l.passesOver() {
			break
		}
		n, err := l.step(tx, l.todo[l.served:end])
		if err != nil {
			return err
		}
		if n == 0 {
			break
		}
		l.served += n
	}
	l.ask()
	return nil
}

// passesOver reports whether there may be items for waiting pops that the transaction does not try to serve. New pops
// must not get ahead of these.
func (l *pops) passesOver() bool {
	for _, band := range l.attempt.Beyond {
		if l.empty[band] == nil {
			return true
		}
	}
	return false
}

// leavesWaiting reports whether a pop waits after this transaction.
func (l *pops) leavesWaiting() bool {
	if len(l.attempt.Beyond) > 0 {
		return true
	}
	for _, r := range l.todo[:l.served] {
		if r.keepsWaiting() {
			return true
		}
	}
	return false
}

// full reports whether the transaction has reached the limits of a turn.
func (l *pops) full() bool {
	return l.items >= l.left.Requests || l.bytes >= int64(l.left.Bytes)
}

// step serves one or more of the first pops, and returns their number. 0 leaves them to the next transaction.
func (l *pops) step(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	first.forget()
	if first.ask.Limit > 1 && l.items > 0 && !l.hasRoom(first) {
		return 0, nil // the answers together might be too large
	}
	if first.refused != nil {
		if first.refused.Code == 413 && first.ask.Repeats {
			return l.popNothing(tx, first, first.refused)
		}
		first.Failure = first.refused
		return 1, nil
	}
	acknowledges := first.acks != nil && !first.acks.done
	if acknowledges {
		settled, err := l.queue.Ack(tx, first.acks.lease)
		var lost *fdbpq.LostError
		if errors.As(err, &lost) && first.ask.Repeats { // the first attempt may have settled it
			return l.popNothing(tx, first, failure.Explain(err))
		}
		if errors.As(err, &lost) {
			first.Failure = failure.Explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		first.ask.TakeOver(settled.Holder)
		l.acked = append(l.acked, first)
		l.events = append(l.events, settled.Events...)
		freed, err := l.work.Freed(l.Lane.Queue.Name())
		if err != nil {
			return 0, err
		}
		if freed {
			clear(l.empty)
			l.freed = true
		}
	}
	if first.gone {
		first.Failure = errGone
		return 1, nil
	}
	if f, err := reserved(l, tx, first); f != nil || err != nil {
		first.Failure = f
		return 1, err
	}
	if first.gives != nil {
		return l.give(tx, first)
	}
	// A new pop with an id may be the repetition of an answered one. That of a +NXT says why it finds nothing behind its own
	// acknowledgement.
	if f := l.empty[first.ask.Band]; f != nil && !acknowledges && (first.ask.ID == "" || first.place != nil) {
		first.Failure = f
		err := l.mayAsk(tx, first)
		if refusedByKeys(err) {
			first.Failure, err = failure.Explain(err), nil
		}
		return 1, err
	}
	if first.peeks {
		taken, err := l.queue.Peek(tx.Snapshot(), first.ask.Selection(&l.Limit, l.Lane.Queue.Name()))
		if refusedByKeys(err) {
			first.Failure = failure.Explain(err)
			return 1, nil
		}
		if err != nil {
			return 0, err
		}
		first.seen(&l.Limit, l.Lane.Queue.Name(), &taken)
		if len(taken.Items) == 0 {
			l.foundNothing(first)
			l.tryAgainIn(taken.Retry)
		}
		return 1, nil
	}
	return l.pop(tx, l.alike(todo))
}

// alike returns the first pops, as many as one read can serve.
func (l *pops) alike(todo []*pop) []*pop {
	n := 1
	for n < len(todo) && l.items+n < l.left.Requests && n != todo[0].most && todo[n].sameAs(todo[0]) {
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
func (l *pops) pop(tx kv.Tx, todo []*pop) (int, error) {
	first := todo[0]
	sel := l.selection(todo)
	taken, err := l.popOrLease(tx, first, sel)
	if refusedByKeys(err) {
		first.Failure = failure.Explain(err)
		return 1, nil
	}
	if err != nil {
		return 0, err
	}
	l.events = append(l.events, taken.Events...)
	items := taken.Items
	if len(items) == 0 && taken.More {
		return 0, nil // it removed expired items, and more are left
	}
	if len(items) == 0 {
		first.Failure, first.final = failure.NothingIn(l.Lane.Queue.Name(), first.ask.Band, &taken), taken.Final
		switch {
		case first.waited:
			first.Failure = errWaited
		case !taken.Final: // which says nothing about the queue
			l.foundNothing(first)
			l.tryAgainIn(taken.Retry)
		}
		return 1, nil
	}
	l.items += len(items)
	if !taken.Repeated {
		l.popped += len(items)
	}
	for i := range items {
		l.bytes += items[i].Size
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
func (l *pops) foundNothing(r *pop) {
	if l.empty == nil {
		l.empty = make(map[fdbpq.Band]*failure.Failure)
	}
	l.empty[r.ask.Band] = r.Failure
}

// tryAgainIn notes the time until a pop that found nothing may find an item.
func (l *pops) tryAgainIn(d time.Duration) {
	if d > 0 && (l.retry == 0 || d < l.retry) {
		l.retry = d
	}
}
