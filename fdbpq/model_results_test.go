package fdbpq_test

import (
	"cmp"
	"maps"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// modelResult is what became of an item that asked for it.
type modelResult struct {
	finish       fdbpq.Finish
	body         string
	dropped      bool
	finished     int64
	ttl          time.Duration
	deliveries   int64
	fence        int64 // of the item's last lease; a pop for good takes the next one
	reason       string
	cause        string // what it failed of last, if the reason does not say it
	next, nextID string // where its work goes on
	nextNumber   int    // the model's, of the item there
	staged       bool   // a staged pop took it: if others were in its way it leased the item first, which counts
}

// resultView is what the store says of a result.
type resultView struct {
	Missing    string // why there is none
	Finish     fdbpq.Finish
	Kept       fdbpq.Kept
	Body       string // of an item that has not ended: how far it is
	Finished   int64  // of an item that has not ended: when its holder has said that
	Deliveries int64
	Reason     string
	Cause      string
	Next       string
	NextID     string
}

// askedFor is for how long a queue keeps a result: the shortest of six times that is long enough.
func askedFor(ttl time.Duration) time.Duration {
	for _, kept := range []time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour} {
		if ttl <= kept {
			return min(ttl, 1) * kept
		}
	}
	return 168 * time.Hour
}

// badResultTTL reports whether a result cannot be kept for so long.
func badResultTTL(ttl time.Duration) bool { return ttl < 0 || ttl > 168*time.Hour }

// resultCosts is what each result counts besides its body.
const resultCosts = 320

// resultRoom is what is left of the queue's result_bytes by results, and by items that ask for theirs, but for the one that ends.
func (q *modelQueue) resultRoom(ends int) int64 {
	room := q.config.ResultBytes
	if room == 0 {
		room = 64 << 20
	}
	for _, r := range q.results {
		room -= resultCosts + int64(len(r.body)+len(r.cause))
	}
	for i := range q.items {
		if item := &q.items[i]; item.asks > 0 && item.number != ends {
			room -= resultCosts
		}
	}
	return room
}

// finish keeps how an item ends, if it has asked for that. There may be no room for what its holder says.
func (m *model) finish(q *modelQueue, at moment, item *modelItem, r modelResult) fdbpq.Kept {
	if item.asks == 0 {
		return fdbpq.KeptNone
	}
	kept := fdbpq.KeptWhole
	if r.body != "" && q.resultRoom(item.number) < resultCosts+int64(len(r.body)) {
		r.body, r.dropped, kept = "", true, fdbpq.KeptDropped
	}
	r.finished, r.ttl, r.deliveries, r.fence = at.now, item.asks, item.deliveries(), r.fence+item.fence
	q.results[item.id] = r
	end, span := r.end(), int64(max(10*time.Second, r.ttl/100))
	m.plan(due{at: (end/span + 1) * span, kind: "results", queue: q.name, id: r.ttl.String()})
	return kept
}

// handOver keeps that the work of an item goes on as another one.
func (m *model) handOver(q *modelQueue, at moment, number int, to *modelQueue, id string) {
	m.use(q.name, at)
	m.finish(q, at, q.byNumber(number), modelResult{finish: fdbpq.FinishHandedOver, next: to.name, nextID: id})
}

// end is the store time from which on nobody sees the result.
func (r *modelResult) end() int64 { return r.finished + int64(r.ttl) }

// resultsDue forgets the results of one TTL whose time is over.
func (m *model) resultsDue(d due, now int64) {
	q := m.queues[d.queue]
	maps.DeleteFunc(q.results, func(_ string, r modelResult) bool { return r.ttl.String() == d.id && r.end() <= now })
}

// result is what became of an item.
func (m *model) result(queue, id string, at moment, got resultView) resultView {
	q := m.queue(queue)
	if q == nil {
		return resultView{Missing: "unknown"}
	}
	if item := q.byID(id); item != nil {
		if item.asks == 0 {
			return resultView{Missing: "unkept"}
		}
		return resultView{Missing: "pending", Body: digest(item.progress), Finished: item.progressAt}
	}
	r, known := q.results[id]
	if !known || r.end() <= at.now {
		return resultView{Missing: "unknown"}
	}
	if r.nextNumber != 0 && r.nextID == "" { // the store has not shown the dead letter yet
		if r.nextID = got.NextID; r.nextID == "" || m.knows(r.nextID) {
			r.nextID = "that of a dead letter"
		}
		q.results[id] = r
	}
	if r.staged && got.Deliveries == r.deliveries+1 {
		r.deliveries, r.staged = got.Deliveries, false
		q.results[id] = r
	}
	v := resultView{
		Finish: r.finish, Kept: fdbpq.KeptWhole, Body: digest(r.body), Finished: r.finished, Deliveries: r.deliveries,
		Reason: r.reason, Cause: r.cause, Next: r.next, NextID: r.nextID,
	}
	if r.dropped {
		v.Kept = fdbpq.KeptDropped
	}
	if r.finish == fdbpq.FinishCancelled {
		v.Reason, v.Cause = r.cause, ""
	}
	return v
}

// namedNext is told the id of an item in which the work of others may go on.
func (m *model) namedNext(number int, id string) {
	for _, q := range m.queues {
		for of, r := range q.results {
			if number != 0 && r.nextNumber == number {
				r.nextID = cmp.Or(id, r.nextID)
				q.results[of] = r
			}
		}
	}
}

// stagedPop is told what a staged pop has taken for good.
func (m *model) stagedPop(queue string, items []itemView) {
	for _, item := range items {
		if r, kept := m.queues[queue].results[item.ID]; kept {
			r.staged = true
			m.queues[queue].results[item.ID] = r
		}
	}
}
