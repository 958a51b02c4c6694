package fdbpq_test

import "time"

// keyOfQueue names a key of a queue, which need not exist.
type keyOfQueue struct{ queue, key string }

// modelFences are the last fences of keys. The model never forgets one: it only knows
// which the store has to keep.
type modelFences struct {
	last map[keyOfQueue]int64
	kept map[keyOfQueue]bool
}

// limitOf is how many items of a key may be leased at a time, 0 for any number.
func (q *modelQueue) limitOf(key string) int64 {
	limit := q.config.KeyLimit
	if own := q.settings[key].Limit; own != nil {
		limit = *own
	}
	if q.config.KeyOrder {
		limit = 1
	}
	return limit
}

// next is the fence of a lease that begins, 0 if it has none.
func (m *model) nextKeyFence(q *modelQueue, key string, at moment) int64 {
	if key == "" || q.limitOf(key) != 1 {
		return 0
	}
	of := keyOfQueue{q.name, key}
	fence := max(m.fences.last[of]+1, at.now/1000)
	m.keepFence(of, fence, at)
	return fence
}

func (m *model) keepFence(of keyOfQueue, fence int64, at moment) {
	m.fences.last[of], m.fences.kept[of] = fence, true
	m.forgetFences(of.queue, at)
}

// forgetFences is work for a sweep: some time later, fences that time has passed are
// forgotten.
func (m *model) forgetFences(queue string, at moment) {
	m.plan(due{at: (at.now/int64(10*time.Second) + 2) * int64(10*time.Second), kind: "efences", queue: queue})
}

// due forgets fences that store time, as it was written, has passed.
func (m *model) fencesDue(queue string, at moment) {
	left := false
	for of := range m.fences.kept {
		if of.queue == queue && m.fences.last[of] < at.written/1000 {
			delete(m.fences.kept, of)
		} else if of.queue == queue {
			left = true
		}
	}
	if left {
		m.forgetFences(queue, at)
	}
}
