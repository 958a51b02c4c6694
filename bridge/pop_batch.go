package bridge

import (
	"time"

	"github.com/pqbridge/pqbridge/bridge/internal/batch"
	"github.com/pqbridge/pqbridge/bridge/internal/desk"
	"github.com/pqbridge/pqbridge/bridge/internal/explain"
	"github.com/pqbridge/pqbridge/bridge/internal/request"
	"github.com/pqbridge/pqbridge/bridge/internal/waiting"
	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/protocol"
)

// newPopLanes returns the lanes of pops. all is what each of them has.
func newPopLanes(base desk.Lane, all pops) *batch.Lanes[*pop, *settlement] {
	o := desk.LaneOptions(base, func(l *desk.Lane, of *batch.Lane[*pop, *settlement]) batch.Worker[*pop, *settlement] {
		own := all
		own.Lane, own.batches, own.settles = l, of, desk.ChangeWorker[*settlement]{Lane: l}
		return &own
	})
	o.Joins = batch.Joins[*settlement]{
		Waited: func(s *settlement) time.Duration { return base.Waited(s) },
		Stuck:  func(late []*settlement) { desk.RefuseStuck(&base, late) },
	}
	return batch.New(o)
}

// Work serves pops: first the waiting pops, in the order in which they came, then the new pops. A pop that finds
// nothing gets that answer, or waits. The transaction also settles the leases that have joined the batch. Settlements
// alone give no reason to try the waiting pops again: an item that a settlement makes ready ends the queue's watch.
func (l *pops) Work(now batch.Batch[*pop, *settlement]) {
	fresh, settling := now.Requests, now.Joined
	separate, arrived := false, now.Woken
	for more := now.Woken || len(fresh) > 0; more; arrived = true {
		var attempt waiting.Attempt[*pop]
		answered := true
		if !separate {
			attempt, answered = l.waits.attempt(l.Queue.Name(), arrived)
		}
		t := popTransaction{pops: l, waiting: attempt, todo: fresh, settling: settling, retrySingle: separate, silent: !answered}
		if len(attempt.Pops) > 0 {
			t.todo = append(attempt.Pops, fresh...)
		}
		if len(t.todo) == 0 {
			break
		}
		t.run()
		fresh = t.finish()
		settling = nil
		more = t.more || separate // also while pops of fresh are left
		// A new pop that makes a transaction fail would do so again and again, behind pops that go on waiting.
		separate = !separate && t.reducedBatch && len(fresh) > 0 && t.served <= len(attempt.Pops)
	}
	batch.Run(settling, &l.settles)
}

// answerSettled answers the settlements of a transaction, and counts its items. When the pop of a +NXT runs again, its
// lease has been acknowledged.
func (t *popTransaction) answerSettled() {
	ended := len(t.acked) + t.ended
	tally := request.Tally{request.Popped: int64(t.popped), request.Acknowledged: int64(ended)}
	for _, r := range t.acked {
		r.acks.done = true
		r.Refusal = request.AsService // only its pop can fail from now on
	}
	for _, r := range t.settling {
		if r.EndsLease() {
			ended++
		}
		r.Tally(&tally)
	}
	t.Stats.Moved(t.Lane.Queue.Name(), request.FlowSettled, ended)
	t.Stats.Queues.Count(t.Lane.Queue.Name(), &tally)
	for _, r := range t.settling {
		desk.AnswerChange(t.Responder, r)
	}
}

// finishWaiting answers the waiting pops that got items, and lets the others wait on.
func (t *popTransaction) finishWaiting() {
	for i, r := range t.waiting.Pops {
		if i >= t.served || r.keepsWaiting() {
			t.waits.keep(r)
			continue
		}
		t.waits.line.Remove(r.place)
		t.answerPop(r)
	}
}

// finish answers the requests of a transaction, and returns the new pops that the transaction did not serve.
func (t *popTransaction) finish() (unserved []*pop) {
	t.Stats.Moved(t.Lane.Queue.Name(), request.FlowOut, t.items)
	t.noteAsks()
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
		t.waits.line.Watch(t.Lane.Queue.Name(), t.watch)
	}
	if t.retry > 0 {
		t.waits.line.Retry(t.Lane.Queue.Name(), t.retry)
	}
	return t.todo[max(t.served, waited):]
}

// noteAsks notes the bands of an existing queue for which clients have asked.
func (t *popTransaction) noteAsks() {
	last := (*pop)(nil) // most pops of a transaction ask for the same
	for _, r := range t.todo[:t.served] {
		unknown := r.Failure != nil && r.Failure.Reason == protocol.ReasonUnknown
		if r.peeks || unknown || last != nil && last.ask.Band == r.ask.Band {
			continue
		}
		t.asks.Note(t.Lane.Queue.Name(), r.ask.Band, explain.AsksLast)
		last = r
	}
}

// leases returns the leases that the transaction settles.
func (t *popTransaction) leases() (leases []fdbpq.Lease) {
	for _, r := range t.settling {
		leases = append(leases, r.Lease)
	}
	for _, r := range t.todo[:t.part.Len()] {
		if r.acks != nil && !r.acks.done {
			leases = append(leases, r.acks.lease)
		}
	}
	return leases
}
