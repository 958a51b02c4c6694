package fdbpq_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

func requeueOf(id knownID, to string) operation {
	return operation{
		name: fmt.Sprintf("requeue %s/%s to %q", id.queue, id.id, to),
		run: func(p *process, tx kv.Tx) (outcome, error) {
			done, err := p.queue(id.queue).Requeue(tx, parseID(id.id), to)
			if err != nil || !done.Found {
				return outcome{}, err
			}
			v := pushedView{queue: done.To, Err: kindOf(done.Err)}
			if done.Err == nil {
				v.ID, v.Seq, v.Priority = done.ID.String(), done.Seq, done.Priority
			}
			return outcome{OK: true, Pushed: []pushedView{v}, Events: eventsOf(done.Events)}, nil
		},
		expect: using(id.queue, func(m *model, at moment, got outcome) outcome { return m.requeue(id, to, at, got) }),
	}
}

// requeueing generates a requeue, mostly of a dead letter.
func (w *world) requeueing(rng *rand.Rand) operation {
	var letters []knownID
	for _, name := range slices.Sorted(maps.Keys(w.model.queues)) {
		for _, item := range w.model.queues[name].items {
			if item.dead != (fdbpq.DeadLetter{}) && item.id != "" {
				letters = append(letters, knownID{queue: name, id: item.id})
			}
		}
	}
	if len(letters) == 0 || rng.IntN(5) == 0 {
		letters = w.ids
	}
	return requeueOf(pick(rng, letters...), pick(rng, "", "", "", "a", "b", "elsewhere"))
}

// requeue brings a dead letter back, unless its queue has no room or does not have its dead
// letters go there.
func (m *model) requeue(id knownID, to string, at moment, got outcome) outcome {
	from := m.queue(id.queue)
	if from == nil {
		return outcome{}
	}
	item := from.byID(id.id)
	if item == nil {
		return outcome{}
	}
	if item.ofLink {
		return outcome{Err: "held"}
	}
	if to == "" {
		to = item.dead.Origin
	}
	out := outcome{OK: true, Pushed: []pushedView{{Err: "requeue", queue: to}}}
	home := m.queue(to)
	if item.dead == (fdbpq.DeadLetter{}) || item.dead.Origin != to || to == id.queue ||
		id.queue != to+"-dead" && (home == nil || home.config.DeadLetter != id.queue) {
		return out
	}
	letter := *item
	letter.priority = letter.lastPriority()
	var victims []int
	if home != nil {
		var full bool
		if victims, full = home.makeRoom(pushItem{payload: letter.payload, headers: letter.headers}, letter.priority, from, letter.number); full {
			out.Pushed[0].Err = "full"
			return out
		}
	}
	m.use(to, at)
	home = m.create(to)
	from.remove(letter.number)
	var answer pushedView
	if len(got.Pushed) > 0 {
		answer = got.Pushed[0]
	}
	again := m.requeued(home, letter, answer, at)
	out.Pushed[0] = pushedView{ID: again.id, Seq: again.seq, Priority: again.priority, queue: to}
	m.finish(from, at, &letter, modelResult{finish: fdbpq.FinishHandedOver, next: to, nextID: again.id})
	m.evict(home, at, &out, []int{m.add(home, again)}, victims)
	return out
}

// requeued is what a dead letter is again in its queue.
func (m *model) requeued(home *modelQueue, letter modelItem, answer pushedView, at moment) modelItem {
	again := modelItem{
		id: answer.ID, tie: placeOf(answer.ID).tie, seq: m.place(home, answer.Seq), priority: letter.lastPriority(), key: letter.key, cost: letter.cost,
		attempts: letter.attempts,
		progress: letter.progress, progressAt: letter.progressAt,
		payload: letter.payload, headers: letter.headers, pushed: at.wall.UnixNano(), state: fdbpq.StateReady,
	}
	if ttl := home.config.TTL; ttl > 0 {
		again.expires = at.now + int64(ttl)
	}
	return again
}
