package fdbpq_test

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// use notes that somebody uses a queue, if it deletes itself. What was noted less than a tenth of the time ago suffices.
func (m *model) use(queue string, at moment) {
	if q := m.queue(queue); q != nil && q.config.ExpireEmpty > 0 && q.used+int64(q.config.ExpireEmpty)/10 <= at.now {
		q.used = at.now
	}
}

// using is the expectation of an operation that uses a queue.
func using(queue string, expect func(*model, moment, outcome) outcome) func(*model, moment, outcome) outcome {
	return func(m *model, at moment, got outcome) outcome {
		m.use(queue, at)
		return expect(m, at, got)
	}
}

// changeDisuse has a queue delete itself from now on, or no more.
func (q *modelQueue) changeDisuse(before fdbpq.Config, now int64) {
	switch after := int64(q.config.ExpireEmpty); {
	case q.config.ExpireEmpty == before.ExpireEmpty:
	case after == 0:
		q.used, q.look = 0, 0
	default:
		q.used, q.look = now, now+after
	}
}

// disuseDue deletes a queue if it was empty and unused for long enough.
func (m *model) disuseDue(q *modelQueue, at moment, out *outcome) {
	after := int64(q.config.ExpireEmpty)
	switch unused := max(q.used, at.opened); {
	case unused+after > at.now:
		q.look = unused + after
	case m.inUse(q, at):
		q.look = at.now + after
	default:
		m.purge(q.name, true)
		out.Events = append(out.Events, "deleted "+q.name)
	}
}

// inUse reports whether a queue is in use, whenever it was last used.
func (m *model) inUse(q *modelQueue, at moment) bool {
	if q.paused || q.taker != nil || len(q.keyCosts) > 0 ||
		len(q.items)+len(q.pushes)+len(q.pops)+len(q.results)+len(q.schedules)+len(q.links)+len(q.settings)+len(q.keyBuckets) > 0 {
		return true
	}
	if rate := q.config.Rate; rate != (fdbpq.Rate{}) {
		if b := q.bucket.seen(rate, 0, at.now); !b.full(at.now) {
			return true
		}
	}
	if rate := q.config.CostRate; rate != (fdbpq.CostRate{}) {
		if b := q.costsNow(at.now); !b.full(at.now) {
			return true
		}
	}
	for of := range m.fences.kept {
		if of.queue == q.name {
			return true
		}
	}
	home, dead := strings.CutSuffix(q.name, "-dead")
	if dead && m.queue(home) != nil {
		return true
	}
	for name, other := range m.queues {
		if other.exists && other.config.DeadLetter == q.name && m.acceptsDead(q.name, name) {
			return true
		}
	}
	return false
}

// forsake leaves a queue alone that deletes itself, mostly, while others may be busy.
func (w *world) forsake(rng *rand.Rand) error {
	after := pick(rng, time.Minute, time.Minute, 4*time.Minute)
	set := func(c *fdbpq.Config) { c.ExpireEmpty = fdbpq.Duration(after) }
	todo := []operation{configureOf("lone", map[string]any{"expire_empty": after.String()}, set, true)}
	for range rng.IntN(3) {
		todo = append(todo, pick(rng,
			pushOf("lone", w.pushItems(rng)), popOf("lone", w.selection(rng, true), w.lease(rng)), popOf("lone", w.selection(rng, true), 0),
			purgeOf("lone", false)))
	}
	if rng.IntN(3) > 0 {
		todo = append(todo, purgeOf("lone", false))
	}
	for range 1 + rng.IntN(4) {
		for _, o := range todo {
			if err := w.do(pick(rng, w.processes...), o); err != nil {
				return err
			}
			if err := w.discover(w.processes[0]); err != nil {
				return err
			}
		}
		if err := w.tick(rng, pick(rng, 5*time.Second, 20*time.Second, time.Minute, 3*time.Minute)); err != nil {
			return err
		}
		todo = []operation{pick(rng, sweepOf(), sweepOf(), popOf("lone", w.selection(rng, true), 0), w.operation(rng))}
	}
	return nil
}
