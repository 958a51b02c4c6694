package fdbpq_test

import (
	"slices"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// listing is what List is asked for. After an item that is gone, the page
// starts where it stood at first.
type listing struct {
	state  fdbpq.State
	key    string
	holder string
	after  *knownID
	band   *fdbpq.Band
	limit  int
	plain  bool // without bodies

	preview int // bytes of each payload, in a plain one
}

// knownID is an id that a push or a pop has answered.
type knownID struct {
	queue, id string
}

func (m *model) get(queue, id string) outcome {
	if q := m.queue(queue); q != nil {
		if item := q.byID(id); item != nil {
			v := item.stored()
			v.KeyAhead = q.keyAhead(item)
			return outcome{OK: true, Items: []itemView{v}}
		}
	}
	return outcome{}
}

func (m *model) removeID(queue, id string, at moment) outcome {
	if q := m.queue(queue); q != nil {
		if item := q.byID(id); item != nil {
			if item.ofLink {
				return outcome{Err: "held"}
			}
			out := outcome{OK: true, N: item.lastPriority()}
			m.withdraw(q, at, item, modelResult{finish: fdbpq.FinishRemoved}, &out)
			return out
		}
	}
	return outcome{}
}

// cancel ends an item that is there, or tells how it has ended.
func (m *model) cancel(id knownID, at moment, c fdbpq.Cancellation) outcome {
	q := m.queue(id.queue)
	if q == nil {
		return outcome{}
	}
	item := q.byID(id.id)
	switch {
	case item == nil:
		r, kept := q.results[id.id]
		if !kept || r.end() <= at.now {
			return outcome{}
		}
		return outcome{OK: true, Reason: fdbpq.Reason(r.finish), N: 1}
	case item.ofLink:
		return outcome{Err: "held"}
	case c.Spare && item.state == fdbpq.StateLeased:
		return outcome{Err: "worked"}
	}
	out := outcome{OK: true, Reason: fdbpq.Reason(fdbpq.FinishCancelled)}
	m.withdraw(q, at, item, modelResult{finish: fdbpq.FinishCancelled, cause: c.Reason}, &out)
	return out
}

// withdraw ends an item from outside, of which its holder hears.
func (m *model) withdraw(q *modelQueue, at moment, item *modelItem, r modelResult, out *outcome) {
	kind, holder, fence := fdbpq.EventRemoved, item.holder, item.fence
	if item.state != fdbpq.StateLeased {
		holder, fence = "", 0
	}
	if r.finish == fdbpq.FinishCancelled {
		kind = fdbpq.EventCancelled
	}
	if kind == fdbpq.EventCancelled || holder != "" {
		out.Events = append(out.Events, showEvent(string(kind), q.name, item.id, item.lastPriority(), item.deliveries(), r.cause, "")+lostBy(holder, 0, fence))
	}
	m.finish(q, at, item, r)
	q.remove(item.number)
}

func (m *model) move(queue, id string, priority int64) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	item := q.byID(id)
	if item == nil {
		return outcome{}
	}
	if item.ofLink {
		return outcome{Err: "held"}
	}
	item.move(priority)
	return outcome{OK: true}
}

func (i *modelItem) move(priority int64) {
	i.returnPriority = priority
	if i.state != fdbpq.StateLeased {
		i.priority = priority
	}
}

// tie gives dead letters whose ids nobody knows yet the random parts of the places that the
// store chose: another item, which was imported, may have all the rest of such a place.
func (q *modelQueue) tie(seen []itemView) {
	for i := range q.items {
		item := &q.items[i]
		if item.id != "" {
			continue
		}
		for _, v := range seen {
			if v.Dead == item.dead && v.Seq == item.seq && v.Priority == item.priority && q.byID(v.ID) == nil {
				item.tie = placeOf(v.ID).tie
			}
		}
	}
}

func (m *model) list(queue string, l listing, got outcome) outcome {
	if l.key != "" && l.state != fdbpq.StateReady {
		return outcome{Err: "list key"}
	}
	if l.holder != "" && l.state != fdbpq.StateLeased {
		return outcome{Err: "list holder"}
	}
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	q.tie(got.Items)
	items := q.in(l.state)
	if l.after != nil {
		home := placeOf(l.after.id)
		after := &home
		if item := q.byID(l.after.id); item != nil {
			after = item
		}
		items = slices.DeleteFunc(items, func(item *modelItem) bool { return compareItems(item, after) <= 0 })
	}
	if b := l.band; b != nil {
		items = slices.DeleteFunc(items, func(item *modelItem) bool { return item.priority < b.Low || item.priority > b.High })
	}
	if l.key != "" {
		items = slices.DeleteFunc(items, func(item *modelItem) bool { return item.key != l.key })
	}
	if l.holder != "" { // fewer than a page looks at
		items = slices.DeleteFunc(items, func(item *modelItem) bool { return item.holder != l.holder })
	}
	limit := l.limit
	if l.key != "" {
		limit = min(limit, 100) // the protocol says so
	}
	out := outcome{More: len(items) > limit}
	apart := 0 // items whose payloads have rows of their own
	for _, item := range items[:min(len(items), limit)] {
		v := item.stored()
		if l.plain {
			begun := l.preview
			if len(item.payload)+len(item.headers) > 32<<10 {
				if apart++; apart > 16 {
					begun = 0
				}
			}
			v.Payload = digest(item.payload[:min(begun, len(item.payload))])
		}
		out.Items = append(out.Items, v)
	}
	return out
}

func (m *model) inspect(queue string, at moment, got outcome) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	out := outcome{OK: true, Counts: q.counts(), Config: q.config}
	if q.paused {
		out.Reason = fdbpq.ReasonPaused
	}
	if q.config.CostRate != (fdbpq.CostRate{}) {
		out.Tokens = q.costTokens(at.now)
	}
	turns := q.turns(selection{band: everyPriority}, at.now, got)
	turns.peeks = true
	for item := turns.next(); item != nil; item = turns.next() {
		if !item.expired(at.now) {
			v := item.view()
			v.Payload, v.Headers = "", ""
			out.Items = []itemView{v}
			break
		}
		turns.pass(item)
	}
	return out
}

func (m *model) names() []string {
	var names []string
	for name, q := range m.queues {
		if q.exists {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// acceptsDead reports whether a queue takes the dead items of another one: because it
// has its name, or because its own configuration says so.
func (m *model) acceptsDead(name, of string) bool {
	if name == of+"-dead" {
		return true
	}
	q := m.queue(name)
	return q != nil && (q.config.DeadLettersFrom == "*" || strings.Contains(","+q.config.DeadLettersFrom+",", ","+of+","))
}

// configure applies a change that is known to be good, or is known not to be.
func (m *model) configure(queue string, at moment, change func(*fdbpq.Config), good bool) outcome {
	if !good {
		return outcome{Err: "config"}
	}
	q := m.create(queue)
	before := q.config
	change(&q.config)
	if name := q.config.DeadLetter; name == queue || name != "" && name != before.DeadLetter && !m.acceptsDead(name, queue) {
		return outcome{Err: "config"}
	}
	q.changeDisuse(before, at.now)
	q.changeRates(before, at.now)
	m.changeTurns(q, before.Fair, at.now)
	rates := q.config.KeyRate != before.KeyRate || q.config.KeyCostRate != before.KeyCostRate
	if c := &q.config; q.keyed && (rates || c.KeyLimit != before.KeyLimit || c.KeyOrder != before.KeyOrder) {
		m.plan(due{at: at.now, kind: "keys", queue: queue})
	}
	return outcome{Config: q.config}
}

func (m *model) pause(queue string, paused bool) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	q.paused = paused
	return outcome{}
}

// purge is Purge, and Delete when the queue goes with its items.
func (m *model) purge(queue string, queueToo bool) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	n := len(q.items)
	if queueToo {
		q.used, q.look = 0, 0 // its timer goes with it
	}
	for i := range q.items {
		if q.items[i].id == "" {
			q.unseen++ // it died while this purge was under way
		}
	}
	for _, d := range q.timers() {
		if d.id == "" || queueToo && !(d.kind == "pop" && q.pops[d.id].repeated) {
			m.forgetTimer(d)
			d.kind = "stale " + d.kind
			m.stale = append(m.stale, d)
		}
	}
	q.items = nil
	for name, l := range q.links {
		l.out = nil
		q.links[name] = l
	}
	q.generation++
	q.garbage++
	q.promisedFence = 0
	if queueToo {
		q.exists, q.paused, q.keyed = false, false, false
		q.settings, q.keyBuckets, q.bucket, q.keyRateSet = nil, nil, modelBucket{}, 0
		q.costed, q.keyCosts, q.costs, q.keyCostSet = false, nil, modelCosts{}, 0
		q.fairOrder, q.fairBuilt = 0, false
		for _, s := range q.schedules {
			if at := s.looked(); at != 0 {
				m.firing.gone = append(m.firing.gone, at)
			}
		}
		q.schedules, q.links, q.taker = nil, nil, nil
		q.high, q.unseen = 0, 0 // the next queue of the name counts from 1
		if m.floor != nil {
			m.floor[queue] = 0
		}
		clear(q.pushes)
		clear(q.results)
		for id, pop := range q.pops {
			if !pop.repeated {
				delete(q.pops, id)
				continue
			}
			pop.nothing, pop.taken, pop.leases = true, nil, nil
			q.pops[id] = pop
		}
	}
	return outcome{N: int64(n)}
}
