package fdbpq_test

import (
	"slices"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

type modelPush struct {
	due           int64
	id            string
	seq, priority int64
}

// pushItem is one item of a push.
type pushItem struct {
	payload, headers string
	priority         int64
	hasPriority      bool
	delay            time.Duration
	notBefore        time.Duration // by the pusher's clock, from now; 0: none
	ttl              time.Duration
	msgID            string
	handOver         *heldLease
	unique           string
	onConflict       fdbpq.OnConflict
	untilLeased      bool
	key              string
}

// push adds items. Ids, and the place among concurrent pushes, are the store's
// choice: they come from what it answered.
func (m *model) push(queue string, at moment, items []pushItem, got outcome) outcome {
	existed := m.queue(queue) != nil
	q := m.create(queue)
	var out outcome
	var pushed []int // numbers, for those that were
	for n, item := range items {
		var answer pushedView
		if n < len(got.Pushed) {
			answer = got.Pushed[n]
		}
		view, number := m.pushOne(q, at, item, answer, &out)
		out.Pushed = append(out.Pushed, view)
		pushed = append(pushed, number)
		if number > 0 {
			q.evict(&out, pushed)
		}
	}
	q.exists = existed || slices.ContainsFunc(pushed, func(number int) bool { return number > 0 })
	return out
}

// evict keeps the queue within its length, as far as eight items will do. Only
// those that stand ready can go.
func (q *modelQueue) evict(out *outcome, pushed []int) {
	limit := q.config.MaxLength
	if limit == 0 || q.config.Overflow != fdbpq.OverflowEvict {
		return
	}
	for n := 0; n < 8 && int64(len(q.items)) > limit; n++ {
		ready := q.in(fdbpq.StateReady)
		if len(ready) == 0 {
			return
		}
		victim := *ready[len(ready)-1]
		q.remove(victim.number)
		if n := slices.Index(pushed, victim.number); n >= 0 {
			out.Pushed[n].Evicted = true
		}
		out.Events = append(out.Events, event(fdbpq.EventEvicted, q, &victim, 0, "", ""))
	}
}

func (m *model) pushOne(q *modelQueue, at moment, item pushItem, answer pushedView, out *outcome) (pushedView, int) {
	priority := item.priority
	if !item.hasPriority {
		priority = q.config.Priority
	}
	if item.msgID != "" {
		first, known := q.pushes[item.msgID]
		if known && first.due > at.now {
			if item.handOver != nil {
				switch from, handed, why := m.handedOver(q, item.handOver); why {
				case "":
					from.remove(handed)
				case "hand over":
					return pushedView{Err: why}, -1
				}
			}
			return pushedView{ID: first.id, Seq: first.seq, Priority: first.priority, Duplicate: true}, -1
		}
		m.forgetTimer(due{at: first.due, kind: "zpush", queue: q.name, id: item.msgID})
		delete(q.pushes, item.msgID)
	}
	length := int64(len(q.items))
	full := q.config.MaxLength > 0 && q.config.Overflow == fdbpq.OverflowRefuse && length >= q.config.MaxLength
	var from *modelQueue
	var handed int
	if item.handOver != nil {
		var why string
		if from, handed, why = m.handedOver(q, item.handOver); why != "" {
			return pushedView{Err: why}, -1
		}
		full = q.tooFull(priority, max(item.delay, item.notBefore) > 0, from, handed)
	}
	if item.unique != "" {
		living := m.claimant(q, at, item.unique, from == q, handed, out)
		if living != nil {
			return m.resolve(q, at, item, priority, living, func() {
				if from != nil {
					from.remove(handed)
				}
			}), -1
		}
		if item.handOver != nil { // what was past its TTL is gone
			full = q.tooFull(priority, max(item.delay, item.notBefore) > 0, from, handed)
		} else {
			full = q.config.MaxLength > 0 && q.config.Overflow == fdbpq.OverflowRefuse && int64(len(q.items)) >= q.config.MaxLength
		}
	}
	switch {
	case item.delay > fdbpq.MaxDelay || item.notBefore > fdbpq.MaxDelay || item.ttl > fdbpq.MaxDelay:
		return pushedView{Err: "time"}, -1
	case full:
		return pushedView{Err: "full"}, -1
	case item.msgID != "" && q.counts().Remembered >= q.config.DedupLimit:
		return pushedView{Err: "remembered"}, -1
	case len(item.payload)+len(item.headers) > fdbpq.MaxContent:
		return pushedView{Err: "content"}, -1
	}
	ttl := item.ttl
	if ttl == 0 {
		ttl = time.Duration(q.config.TTL)
	}
	delay := max(item.delay, item.notBefore)
	added := modelItem{
		id: answer.ID, tie: placeOf(answer.ID).tie, seq: m.place(q, answer.Seq), priority: priority,
		payload: item.payload, headers: item.headers, pushed: at.wall.UnixNano(), state: fdbpq.StateReady,
		unique: item.unique, untilLeased: item.untilLeased, key: item.key,
	}
	if ttl > 0 {
		added.expires = at.now + int64(ttl)
	}
	if delay > 0 {
		added.state, added.due = fdbpq.StateDelayed, at.now+int64(delay)
	}
	if from != nil {
		from.remove(handed)
	}
	number := m.add(q, added)
	view := pushedView{ID: added.id, Seq: added.seq, Priority: priority}
	if item.msgID != "" {
		due := at.now + int64(q.config.DedupWindow)
		q.pushes[item.msgID] = modelPush{due: due, id: added.id, seq: added.seq, priority: priority}
	}
	return view, number
}

// handedOver finds the item that a push acknowledges, and says why it may not be.
func (m *model) handedOver(to *modelQueue, l *heldLease) (from *modelQueue, number int, why string) {
	from = m.queue(l.queue)
	if from == nil || from.generation != l.generation {
		return nil, 0, "lost: gone"
	}
	item := from.byID(l.id)
	switch {
	case item == nil:
		return nil, 0, "lost: gone"
	case item.fence != l.fence:
		return nil, 0, "lost: taken"
	case from.config.HandOver != "*" && !slices.Contains(strings.Split(from.config.HandOver, ","), to.name):
		return nil, 0, "hand over"
	}
	return from, item.number, ""
}

// tooFull reports whether a queue has no place for an item, or would evict it, when
// another item is handed over for it.
func (q *modelQueue) tooFull(priority int64, delayed bool, from *modelQueue, handed int) bool {
	stay := slices.Clone(q.items)
	if from == q {
		stay = slices.DeleteFunc(stay, func(item modelItem) bool { return item.number == handed })
	}
	excess := int64(len(stay)) + 1 - q.config.MaxLength
	if q.config.MaxLength == 0 || excess <= 0 {
		return false
	}
	if q.config.Overflow == fdbpq.OverflowRefuse {
		return true
	}
	lessUrgent := int64(0)
	for _, item := range stay {
		if item.state == fdbpq.StateReady && item.priority > priority {
			lessUrgent++
		}
	}
	return !delayed && lessUrgent < min(excess, 8)
}

// place is where the next push stands: behind all that came before it.
func (m *model) place(q *modelQueue, answered int64) int64 {
	switch {
	case m.floor == nil:
		q.high++
		if q.unseen > 0 && answered > 0 {
			q.high = min(max(q.high, answered), q.high+q.unseen)
			q.unseen = 0
		}
		return q.high
	case answered > m.floor[q.name]:
		q.high = max(q.high, answered)
		return answered
	}
	return q.high + 1 // until the store shows it
}

type pushedView struct {
	ID        string
	Seq       int64
	Priority  int64
	Duplicate bool
	Evicted   bool
	Err       string

	queue string
}
