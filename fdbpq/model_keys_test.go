package fdbpq_test

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/pqbridge/pqbridge/fdbpq"
)

func (q *modelQueue) limitsKeys() bool { return q.config.KeyLimit > 0 || q.config.KeyOrder }

// first reports whether the selection is one from the beginning of a queue.
func (sel *selection) first() bool { return sel.end == fdbpq.Min && sel.band == everyPriority }

// refuses says what a queue that looks at keys does not do.
func (q *modelQueue) refuses(sel *selection, leases bool) string {
	limited, set := q.limitsKeys(), false
	for _, k := range q.settings {
		limited, set = limited || k.Limit != nil && *k.Limit > 0, true
	}
	switch {
	case limited && !leases:
		return "lease required"
	case (limited || set || q.config.KeyRate != (fdbpq.Rate{}) || q.config.KeyCostRate != (fdbpq.CostRate{}) || q.config.Fair != "") && !sel.first():
		return "only min"
	}
	return ""
}

// blocks reports whether items may have to wait for others of their key.
func (q *modelQueue) blocks() bool {
	rated := q.config.KeyRate != (fdbpq.Rate{}) || q.config.KeyCostRate != (fdbpq.CostRate{})
	return q.keyed && (q.limitsKeys() || len(q.settings) > 0 || rated || q.fairBuilt)
}

// ahead is how many ready items of its key go before a ready item.
func (q *modelQueue) keyAhead(item *modelItem) (n int) {
	if item.key == "" || item.state != fdbpq.StateReady {
		return 0
	}
	for _, other := range q.in(fdbpq.StateReady) {
		first := compareItems(other, item) < 0
		if begun := other.fence > 0; q.config.KeyOrder && begun != (item.fence > 0) {
			first = begun
		}
		if other.key == item.key && first {
			n++
		}
	}
	return n
}

// hold decides whether a delayed item keeps its key from others.
func (q *modelQueue) hold(item *modelItem) {
	if item.state == fdbpq.StateDelayed {
		item.held = q.config.KeyOrder && item.fence > 0 && item.key != ""
	}
}

// turns gives the ready items of a queue one after another, as one transaction gets
// them. Where keys take turns the protocol leaves several items to choose from: then it
// follows the store as far as it may.
type turns struct {
	q     *modelQueue
	sel   selection
	now   int64
	got   outcome        // what the store answered
	peeks bool           // it removes no items past their TTL
	hits  int            // items taken
	gone  map[int]bool   // items taken or passed, by number
	taken map[string]int // items by key
	paid  map[string]int64
}

func (q *modelQueue) turns(sel selection, now int64, got outcome) *turns {
	return &turns{q: q, sel: sel, now: now, got: got, gone: make(map[int]bool), taken: make(map[string]int), paid: make(map[string]int64)}
}

func (t *turns) pass(item *modelItem) { t.gone[item.number] = true }

func (t *turns) take(item *modelItem) {
	t.pass(item)
	t.hits++
	t.taken[item.key]++
	t.paid[item.key] += item.costs()
}

// next returns the next item that may be handed out, nil when there is none.
func (t *turns) next() *modelItem {
	all := t.candidates()
	if t.fair() || len(all) == 0 {
		return t.follow(all)
	}
	return all[0]
}

func (t *turns) fair() bool { return t.q.fairBuilt && t.q.keyed }

// candidates are the items of which any may be the next one: where keys take turns, the
// first of each key in a class.
func (t *turns) candidates() (all []*modelItem) {
	seen := make(map[string]bool) // keys with an item before
	for _, item := range t.q.order(t.sel) {
		if t.gone[item.number] || item.key != "" && t.q.blocks() && !t.may(item) {
			continue
		}
		if !t.fair() {
			return []*modelItem{item}
		}
		if class := t.q.class; len(all) > 0 && class(item.priority) > class(all[0].priority) {
			break
		}
		if !seen[item.key] {
			all = append(all, item)
		}
		seen[item.key] = true
	}
	return all
}

// follow returns the item of several that the store chose: the one past its TTL that it
// passed or removed next, or one that it gave. Without any, it is the one that fits an
// answer least.
func (t *turns) follow(candidates []*modelItem) *modelItem {
	var passed, given, other *modelItem
	next := t.removedNext()
	for _, item := range candidates {
		switch {
		case item.expired(t.now):
			if passed == nil && (t.peeks || next != nil && item.number == next.number) {
				passed = item
			}
		case given == nil && t.hits < len(t.got.Items) && item.is(t.got.Items[t.hits]):
			given = item
		case other == nil || item.size() > other.size():
			other = item
		}
	}
	if passed != nil && given != nil {
		// Another item of its key may come before all that may be given now.
		t.gone[passed.number] = true
		still := slices.Contains(t.candidates(), given)
		if delete(t.gone, passed.number); !still {
			return given
		}
	}
	return cmp.Or(passed, given, other)
}

// removedNext is the item past its TTL that the store removed first of those that are
// left. Its events tell, in their order.
func (t *turns) removedNext() (next *modelItem) {
	first := len(t.got.Events)
	for i := range t.q.items {
		item := &t.q.items[i]
		if t.gone[item.number] || !item.expired(t.now) {
			continue
		}
		if at := slices.IndexFunc(t.got.Events, func(event string) bool {
			return !strings.HasPrefix(event, "evicted ") && strings.Contains(event, "/"+item.id+" ")
		}); at >= 0 && at < first {
			next, first = item, at
		}
	}
	return next
}

// is reports whether the store may have shown the item so.
func (i *modelItem) is(v itemView) bool {
	return i.id == v.ID || i.id == "" && i.key == v.Key && i.priority == v.Priority && i.size() == v.Size
}

// class is the class of a priority, by the text of the configuration.
func (q *modelQueue) class(priority int64) int64 {
	if q.config.Fair == fdbpq.FairPriority {
		return priority
	}
	class := int64(0)
	for _, border := range strings.Split(string(q.config.Fair), ",") {
		if least, err := strconv.ParseInt(border, 10, 64); err == nil && priority >= least {
			class++
		}
	}
	return class
}

// may reports whether an item may be handed out before all others of its key.
func (t *turns) may(item *modelItem) bool {
	settings := t.q.settings[item.key]
	if settings.Paused != nil && *settings.Paused {
		return false
	}
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
	limit := t.q.limitOf(item.key)
	return (limit == 0 || int64(leased) < limit) &&
		t.q.keyTokens(item.key, t.now) > int64(t.taken[item.key]) && t.q.keyCostTokens(item.key, t.now) > t.paid[item.key]
}
