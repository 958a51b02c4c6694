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
	resultTTL        time.Duration
	cost             int64
}

// push adds items. Ids, and the place among concurrent pushes, are the store's
// choice: they come from what it answered.
func (m *model) push(queue string, at moment, items []pushItem, got outcome) outcome {
	m.use(queue, at)
	existed := m.queue(queue) != nil
	q := m.create(queue)
	var out outcome
	var pushed []int // numbers, for those that were
	for n, item := range items {
		var answer pushedView
		if n < len(got.Pushed) {
			answer = got.Pushed[n]
		}
		view, number, victims := m.pushOne(q, at, item, answer, &out)
		out.Pushed = append(out.Pushed, view)
		pushed = append(pushed, number)
		if number > 0 {
			m.evict(q, at, &out, pushed, victims)
		}
	}
	q.exists = existed || slices.ContainsFunc(pushed, func(number int) bool { return number > 0 })
	return out
}

// amount is how many items there are, and what they count of max_bytes.
func amount(items []modelItem) (length, bytes int64) {
	for _, item := range items {
		bytes += item.size() + 512 + item.overhead()
	}
	return int64(len(items)), bytes
}

// overfull reports whether items are more than the queue may have.
func (q *modelQueue) overfull(items []modelItem) bool {
	length, bytes := amount(items)
	return q.config.MaxLength > 0 && length > q.config.MaxLength || q.config.MaxBytes > 0 && bytes > q.config.MaxBytes
}

// grows reports whether the queue has more than it may with so many more bytes.
func (q *modelQueue) grows(bytes int) bool {
	_, now := amount(q.items)
	return bytes > 0 && q.config.MaxBytes > 0 && now+int64(bytes) > q.config.MaxBytes
}

// newItem is the number of an item that is about to be pushed.
const newItem = -1

// makeRoom chooses the items that go for a new one, which stands behind those of its
// priority: the least urgent ready ones, as far as eight will do. If that one itself
// suffices, no other one goes. The queue has no place for an item that stays and has it hold
// even more than it may.
func (q *modelQueue) makeRoom(item pushItem, priority int64, from *modelQueue, handed int) (victims []int, full bool) {
	before := slices.Clone(q.items)
	if from == q {
		before = slices.DeleteFunc(before, func(item modelItem) bool { return item.number == handed })
	}
	added := modelItem{
		number: newItem, priority: priority, payload: item.payload, headers: item.headers, state: fdbpq.StateReady, unique: item.unique, key: item.key,
	}
	if max(item.delay, item.notBefore) > 0 {
		added.state = fdbpq.StateDelayed
	}
	after := append(slices.Clone(before), added)
	if !q.overfull(after) {
		return nil, false
	}
	if q.config.Overflow == fdbpq.OverflowRefuse {
		return nil, q.fuller(after)
	}
	var ready []modelItem
	for _, item := range q.in(fdbpq.StateReady) {
		if from != q || item.number != handed {
			ready = append(ready, *item)
		}
	}
	if added.state == fdbpq.StateReady {
		at := 0
		for at < len(ready) && ready[at].priority <= priority {
			at++
		}
		ready = slices.Insert(ready, at, added)
	}
	stay := slices.Clone(after)
	for len(victims) < 8 && len(ready) > 0 && q.overfull(stay) {
		number := ready[len(ready)-1].number
		ready = ready[:len(ready)-1]
		if number == newItem && !q.overfull(before) {
			victims = []int{newItem}
			break
		}
		victims = append(victims, number)
		stay = slices.DeleteFunc(stay, func(item modelItem) bool { return item.number == number })
	}
	if slices.Contains(victims, newItem) {
		return victims, from != nil
	}
	if q.fuller(stay) {
		return nil, true
	}
	return victims, false
}

// fuller reports whether items are more than the queue may have, and than it has.
func (q *modelQueue) fuller(items []modelItem) bool {
	length, bytes := amount(items)
	lengthNow, bytesNow := amount(q.items)
	return q.config.MaxLength > 0 && length > max(q.config.MaxLength, lengthNow) || q.config.MaxBytes > 0 && bytes > max(q.config.MaxBytes, bytesNow)
}

// evict removes the items that were chosen for one that was added.
func (m *model) evict(q *modelQueue, at moment, out *outcome, pushed []int, victims []int) {
	for _, number := range victims {
		if number == newItem {
			number = pushed[len(pushed)-1]
		}
		victim := *q.byNumber(number)
		m.finish(q, at, &victim, modelResult{finish: fdbpq.FinishEvicted})
		q.remove(number)
		if n := slices.Index(pushed, number); n >= 0 {
			out.Pushed[n].Evicted = true
		}
		out.Events = append(out.Events, event(fdbpq.EventEvicted, q, &victim, victim.deliveries(), "", ""))
	}
}

func (m *model) pushOne(q *modelQueue, at moment, item pushItem, answer pushedView, out *outcome) (view pushedView, number int, victims []int) {
	priority := item.priority
	if !item.hasPriority {
		priority = q.config.Priority
	}
	switch {
	case badResultTTL(item.resultTTL):
		return pushedView{Err: "time"}, -1, nil
	case badCost(item.cost), item.handOver != nil && item.handOver.spent.bad():
		return pushedView{Err: "cost"}, -1, nil
	}
	if item.msgID != "" {
		first, known := q.pushes[item.msgID]
		if known && first.due > at.now {
			if item.handOver != nil {
				switch from, handed, why := m.handedOver(q, item.handOver, at); why {
				case "":
					m.handOver(from, at, handed, q, first.id)
					m.done(from, *from.byNumber(handed), item.handOver.spent, at.now)
				case "hand over":
					return pushedView{Err: why}, -1, nil
				}
			}
			return pushedView{ID: first.id, Seq: first.seq, Priority: first.priority, Duplicate: true}, -1, nil
		}
		m.forgetTimer(due{at: first.due, kind: "zpush", queue: q.name, id: item.msgID})
		delete(q.pushes, item.msgID)
	}
	var from *modelQueue
	var handed int
	if item.handOver != nil {
		var why string
		if from, handed, why = m.handedOver(q, item.handOver, at); why != "" {
			return pushedView{Err: why}, -1, nil
		}
	}
	if item.unique != "" {
		living := m.claimant(q, at, item.unique, from == q, handed, out)
		if living != nil {
			return m.resolve(q, at, item, priority, living, func() {
				if from != nil {
					m.handOver(from, at, handed, q, living.id)
					m.done(from, *from.byNumber(handed), item.handOver.spent, at.now)
				}
			}), -1, nil
		}
	}
	victims, full := q.makeRoom(item, priority, from, handed)
	switch {
	case item.resultTTL > 0 && q.resultRoom(0) < resultCosts:
		return pushedView{Err: "results"}, -1, nil
	case item.delay > fdbpq.MaxDelay || item.notBefore > fdbpq.MaxDelay || item.ttl > fdbpq.MaxDelay:
		return pushedView{Err: "time"}, -1, nil
	case full:
		return pushedView{Err: "full"}, -1, nil
	case item.msgID != "" && q.counts().Remembered >= q.config.DedupLimit:
		return pushedView{Err: "remembered"}, -1, nil
	case len(item.payload)+len(item.headers) > fdbpq.MaxContent:
		return pushedView{Err: "content"}, -1, nil
	}
	ttl := item.ttl
	if ttl == 0 {
		ttl = time.Duration(q.config.TTL)
	}
	delay := max(item.delay, item.notBefore)
	added := modelItem{
		id: answer.ID, tie: placeOf(answer.ID).tie, seq: m.place(q, answer.Seq), priority: priority,
		payload: item.payload, headers: item.headers, pushed: at.wall.UnixNano(), state: fdbpq.StateReady,
		unique: item.unique, untilLeased: item.untilLeased, key: item.key, asks: askedFor(item.resultTTL), cost: item.cost,
	}
	if ttl > 0 {
		added.expires = at.now + int64(ttl)
	}
	if delay > 0 {
		added.state, added.due = fdbpq.StateDelayed, at.now+int64(delay)
	}
	if from != nil {
		m.handOver(from, at, handed, q, added.id)
		m.done(from, *from.byNumber(handed), item.handOver.spent, at.now)
	}
	number = m.add(q, added)
	view = pushedView{ID: added.id, Seq: added.seq, Priority: priority}
	if item.msgID != "" {
		due := at.now + int64(q.config.DedupWindow)
		q.pushes[item.msgID] = modelPush{due: due, id: added.id, seq: added.seq, priority: priority}
	}
	return view, number, victims
}

// handedOver finds the item that a push acknowledges, and says why it may not be.
func (m *model) handedOver(to *modelQueue, l *heldLease, at moment) (from *modelQueue, number int, why string) {
	from = m.queue(l.queue)
	if from == nil {
		return nil, 0, "lost: gone"
	}
	item := from.byID(l.id)
	switch {
	case item == nil || from.generation != l.generation:
		return nil, 0, "lost: " + string(from.lostOf(*l, at, ""))
	case item.fence != l.fence:
		return nil, 0, "lost: taken"
	case from.config.HandOver != "*" && !slices.Contains(strings.Split(from.config.HandOver, ","), to.name):
		return nil, 0, "hand over"
	}
	return from, item.number, ""
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
