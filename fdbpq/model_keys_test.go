package fdbpq_test

import (
	"github.com/pqbridge/pqbridge/fdbpq"
)

func (q *modelQueue) limitsKeys() bool { return q.config.KeyLimit > 0 || q.config.KeyOrder }

// first reports whether the selection is one from the beginning of a queue.
func (sel *selection) first() bool { return sel.end == fdbpq.Min && sel.band == everyPriority }

// hold decides whether a delayed item keeps its key from others.
func (q *modelQueue) hold(item *modelItem) {
	if item.state == fdbpq.StateDelayed {
		item.held = q.config.KeyOrder && item.fence > 0 && item.key != ""
	}
}

// turns gives the ready items of a queue one after another, as one transaction gets
// them.
type turns struct {
	q     *modelQueue
	sel   selection
	gone  map[int]bool   // items taken or passed, by number
	taken map[string]int // items by key
}

func (q *modelQueue) turns(sel selection) *turns {
	return &turns{q: q, sel: sel, gone: make(map[int]bool), taken: make(map[string]int)}
}

func (t *turns) pass(item *modelItem) { t.gone[item.number] = true }

func (t *turns) take(item *modelItem) {
	t.pass(item)
	t.taken[item.key]++
}

// next returns the first item that may be handed out, nil when there is none.
func (t *turns) next() *modelItem {
	for _, item := range t.q.order(t.sel) {
		if !t.gone[item.number] && (item.key == "" || !t.q.limitsKeys() || t.may(item)) {
			return item
		}
	}
	return nil
}

// may reports whether an item may be handed out before all others of its key.
func (t *turns) may(item *modelItem) bool {
	leased := t.taken[item.key]
	for _, other := range t.q.items {
		if other.key != item.key {
			continue
		}
		if other.state == fdbpq.StateLeased || other.state == fdbpq.StateDelayed && other.held {
			leased++
		}
		begun := other.state == fdbpq.StateReady && other.fence > 0 && !t.gone[other.number]
		if t.q.config.KeyOrder && begun && item.fence == 0 {
			return false
		}
	}
	if t.q.config.KeyOrder {
		return leased == 0
	}
	return int64(leased) < t.q.config.KeyLimit
}
