package bridge

import (
	"github.com/pqbridge/pqbridge/bridge/batch"
	"github.com/pqbridge/pqbridge/bridge/failure"
	"github.com/pqbridge/pqbridge/bridge/peers"
	"github.com/pqbridge/pqbridge/fdbpq"
)

// pops is the work of a lane of pops. Its transactions also settle leases.
type pops struct {
	*lane
	waits     *waits
	turns     *peers.Turns
	exclusive bool // only this process can open the store
	batches   *batch.Lane[*pop]
	changes   changes   // runs settlements without pops
	apart     []changer // a buffer of these
}

// Work serves pops: first the waiting ones, in the order in which they came, then
// the new ones. A pop that finds nothing is answered so, or waits. The transaction
// also settles the leases that have joined the batch. Settlements alone give no
// reason to try the waiting pops again: an item that one makes ready ends the
// queue's watch.
func (l *pops) Work(now batch.Batch[*pop]) {
	fresh, settling := now.Requests, now.Joined
	for more := now.Kicked || len(fresh) > 0; more; {
		attempt := l.waits.attempt(l.queue.Name())
		t := popTransaction{pops: l, waiting: attempt, todo: fresh, settling: settling}
		if len(attempt.Pops) > 0 {
			t.todo = append(attempt.Pops, fresh...)
		}
		if len(t.todo) == 0 {
			break
		}
		l.turns.Await(l.queue.Name())
		t.run()
		l.turns.Done(l.queue.Name())
		if t.conflicted && !l.exclusive { // in an exclusive store it conflicted with this bridge
			l.turns.Lost(l.queue.Name())
		}
		fresh = t.finish()
		settling = nil
		more = len(fresh) > 0 || t.more
	}
	l.settle(settling)
}

// settle runs settlements without pops.
func (l *pops) settle(settling []*pop) {
	for _, r := range settling {
		l.apart = append(l.apart, r.settles)
	}
	batch.Run(l.apart, &l.changes)
	clear(l.apart)
	l.apart = l.apart[:0]
}

// answerSettled answers the settlements of a transaction and counts the leases that
// it ended. A +NXT keeps its settlement when its pop runs again.
func (t *popTransaction) answerSettled() {
	ended := len(t.acked)
	for _, r := range t.acked {
		r.settles.tookEffect = true
		r.refusal = asService // only its pop can fail from now on
	}
	for _, r := range t.settling {
		if r.settles.endsLease() {
			ended++
		}
	}
	t.stats.moved(t.lane.queue.Name(), flowSettled, ended)
	for _, r := range t.settling {
		answerChange(t.responder, r.settles)
	}
}

// finish answers the requests of a transaction and returns the new pops that it did
// not serve.
func (t *popTransaction) finish() (unserved []*pop) {
	t.stats.moved(t.lane.queue.Name(), flowOut, t.items)
	t.answerSettled()
	t.finishWaiting()
	waited := len(t.waiting.Pops)
	for _, r := range t.todo[waited:max(t.served, waited)] {
		if r.keepsWaiting() {
			t.waits.add(r)
		} else {
			t.answerPop(r)
		}
	}
	if t.watch != nil {
		t.waits.line.Watch(t.lane.queue.Name(), t.watch)
	}
	return t.todo[max(t.served, waited):]
}

// foundNothing remembers that the queue has no item in a band, for the other pops
// of that band.
func (t *popTransaction) foundNothing(r *pop) {
	if t.empty == nil {
		t.empty = make(map[fdbpq.Band]*failure.Failure)
	}
	t.empty[r.ask.band] = r.failure
}
