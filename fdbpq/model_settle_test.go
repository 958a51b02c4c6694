package fdbpq_test

import (
	"cmp"
	"fmt"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

type modelLease struct {
	number int
	fence  int64
}

// heldLease is a lease as its consumer knows it.
type heldLease struct {
	queue      string
	token      string
	id         string // of the item
	fence      int64
	generation int
	spent      spending // what its settlement is to say
}

// settlement is what can be done with a lease.
type settlement string

const (
	settleAck       settlement = "ack"
	settleAckWith   settlement = "ack with" // what would be a reason otherwise
	settleNack      settlement = "nack"     // after a delay
	settleNackPlain settlement = "plain nack"
	settleReturn    settlement = "return"
	settleBack      settlement = "give back"
	settleExtend    settlement = "extend"
	settleReport    settlement = "report" // what would be a reason otherwise
	settleTerminate settlement = "terminate"
)

// lostOf says why a lease is lost whose item is not there. A result that the queue keeps tells whether the item may have ended so.
func (q *modelQueue) lostOf(l heldLease, at moment, what settlement) fdbpq.Lost {
	ends := map[settlement]fdbpq.Finish{settleAck: fdbpq.FinishDone, settleAckWith: fdbpq.FinishDone, settleTerminate: fdbpq.FinishDead}
	how, ending := ends[what]
	r, kept := q.results[l.id]
	switch {
	case !kept || r.end() <= at.now:
		return fdbpq.LostGone
	case r.finish == fdbpq.FinishCancelled:
		return fdbpq.LostCancelled
	case !ending:
		return fdbpq.LostGone
	case r.finish == fdbpq.FinishExpired:
		return fdbpq.LostExpired
	case r.finish != how || r.fence > l.fence:
		return fdbpq.LostTaken
	}
	return fdbpq.LostGone
}

func (m *model) settle(l heldLease, at moment, what settlement, d time.Duration, reason string) outcome {
	spent := l.spent
	if what == settleReturn || what == settleBack && reason == "" {
		spent = spending{} // nobody has begun with it
	}
	if spent.bad() {
		return outcome{Err: "cost"}
	}
	q := m.queue(l.queue)
	if q == nil {
		return outcome{Err: "lost: gone"}
	}
	item := q.byID(l.id)
	switch {
	case item == nil || q.generation != l.generation:
		return outcome{Err: "lost: " + string(q.lostOf(l, at, what))}
	case item.fence != l.fence:
		return outcome{Err: "lost: taken"}
	}
	late := what == settleAck || what == settleAckWith || what == settleTerminate
	if !late && (item.state != fdbpq.StateLeased || item.due <= at.now) {
		if item.state != fdbpq.StateLeased && item.givenBack {
			return outcome{Err: "lost: returned"}
		}
		return outcome{Err: "lost: expired"}
	}
	out := outcome{Reserved: item.charged}
	was := *item
	if raise := what == settleExtend || what == settleReport; spent.said && q.ratesCost() && (!raise || spent.cost > item.charged) {
		item.charged = spent.cost
	}
	switch what {
	case settleAck:
		out.Kept = string(m.finish(q, at, item, modelResult{finish: fdbpq.FinishDone}))
		out.Reserved = m.done(q, was, spent, at.now)
	case settleAckWith:
		out.Kept = string(m.finish(q, at, item, modelResult{finish: fdbpq.FinishDone, body: reason}))
		out.Reserved = m.done(q, was, spent, at.now)
	case settleTerminate:
		if item.state == fdbpq.StateLeased {
			q.recordAttempt(at, item, "terminated", reason, min(at.now, item.due))
		}
		gone := *item
		out.Reserved = m.done(q, was, spent, at.now)
		m.moveToDeadLetters(q, at, gone, cmp.Or(reason, "terminated"), &out)
	case settleExtend, settleReport:
		m.correct(q, item.key, was.charged, item.charged, at.now)
		item.due = at.now + int64(d)
		if what == settleReport {
			out.Kept = string(q.report(at, item, reason))
		}
		out.Items = []itemView{{
			ID: item.id, Fence: item.fence, KeyFence: item.keyFence, Expires: at.display(item.due), number: item.number, generation: q.generation,
		}}
	case settleReturn:
		if item.extraAnswers > 0 {
			item.extraAnswers-- // another answer may have arrived
			break
		}
		m.endLease(q, at, item, "unreceived", "", at.now, nil, &out)
	case settleBack:
		m.endLease(q, at, item, "back", reason, at.now, nil, &out)
	case settleNack:
		m.endLease(q, at, item, "nak", reason, at.now, &d, &out)
	case settleNackPlain:
		m.endLease(q, at, item, "nak", reason, at.now, nil, &out)
	}
	switch what {
	case settleBack, settleNack, settleNackPlain:
		m.settled(q, was, spent, at.now)
	}
	return out
}

// report keeps what the holder of an item has said, unless that is longer than before, and the queue has as many bytes as it may have.
func (q *modelQueue) report(at moment, item *modelItem, text string) fdbpq.Kept {
	grown := *item
	grown.progress, grown.progressAt = text, at.display(at.now)
	if _, bytes := amount(q.items); grown.overhead() > item.overhead() && q.config.MaxBytes > 0 && bytes > q.config.MaxBytes {
		return fdbpq.KeptDropped
	}
	*item = grown
	return ""
}

// reinstate puts a leased item back where it was, or was moved to.
func (m *model) reinstate(q *modelQueue, at moment, number int, due int64, out *outcome) {
	item := q.byNumber(number)
	item.priority, item.extraAnswers, item.holder = item.returnPriority, 0, ""
	switch {
	case item.expired(at.now):
		gone := *item
		q.remove(number)
		m.expire(q, at, gone, out)
	case due > at.now:
		item.state, item.due = fdbpq.StateDelayed, due
		q.hold(item)
	default:
		item.state = fdbpq.StateReady
	}
}

// expire ends an item past its TTL that is in the queue no more.
func (m *model) expire(q *modelQueue, at moment, item modelItem, out *outcome) {
	if q.config.DeadLetterExpired && item.dead == (fdbpq.DeadLetter{}) {
		m.moveToDeadLetters(q, at, item, "expired", out)
		return
	}
	m.finish(q, at, &item, modelResult{finish: fdbpq.FinishExpired})
	out.Events = append(out.Events, event(fdbpq.EventExpired, q, &item, item.deliveries(), "", ""))
}

// bury puts an item that is in the queue no more into the dead-letter queue.
func (m *model) moveToDeadLetters(q *modelQueue, at moment, item modelItem, reason string, out *outcome) {
	if item.state == fdbpq.StateLeased {
		item.priority = item.returnPriority
	}
	if item.dead != (fdbpq.DeadLetter{}) {
		m.finish(q, at, &item, modelResult{finish: fdbpq.FinishDead, reason: reason, cause: item.failedOf(reason)})
		out.Events = append(out.Events, event(fdbpq.EventDead, q, &item, item.deliveries(), reason, "")+showEndings(item.endings()))
		return
	}
	name := q.name + "-dead"
	if chosen := q.config.DeadLetter; chosen != "" && m.acceptsDead(chosen, q.name) {
		name = chosen
	}
	out.Events = append(out.Events, event(fdbpq.EventDead, q, &item, item.deliveries(), reason, name)+showEndings(item.endings()))
	m.use(name, at)
	grave := m.create(name)
	buried := modelItem{
		priority: item.priority, seq: m.place(grave, 0), payload: item.payload, headers: item.headers, pushed: item.pushed,
		key: item.key, cost: item.cost, attempts: item.attempts, progress: item.progress, progressAt: item.progressAt, state: fdbpq.StateReady,
		dead: fdbpq.DeadLetter{
			Reason: reason, Origin: q.name, OriginID: item.id, At: time.Unix(0, at.wall.UnixNano()),
			Deliveries: item.deliveries(), Interruptions: item.interruptions,
		},
	}
	if ttl := grave.config.TTL; ttl > 0 {
		buried.expires = at.now + int64(ttl)
	}
	number := m.add(grave, buried)
	m.finish(q, at, &item, modelResult{finish: fdbpq.FinishDead, reason: reason, cause: item.failedOf(reason), next: name, nextNumber: number})
}

func event(kind fdbpq.EventType, q *modelQueue, item *modelItem, deliveries int64, reason, dead string) string {
	return showEvent(string(kind), q.name, item.id, item.priority, deliveries, reason, dead)
}

func showEvent(kind, queue, id string, priority, deliveries int64, reason, dead string) string {
	return fmt.Sprintf("%s %s/%s priority %d, deliveries %d, reason %q to %q", kind, queue, id, priority, deliveries, reason, dead)
}
