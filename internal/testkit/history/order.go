package history

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// ready is a time in which an item certainly was ready.
type ready struct {
	span
	item *item
}

// readiness returns the times in which an item certainly was ready: from its acknowledgement, and from each return,
// to the call that took it next.
func (j *judge) readiness(it *item) []ready {
	if it.push == nil || it.push.Outcome != Done {
		return nil
	}
	times := []ready{{span{it.push.Return, j.nextPop(it, 0)}, it}}
	for _, s := range it.settlements {
		if s.Kind == Nak && s.Outcome == Done {
			times = append(times, ready{span{s.Return, j.nextPop(it, s.Fence)}, it})
		}
	}
	return slices.DeleteFunc(times, func(r ready) bool { return r.from >= r.to })
}

// nextPop is the earliest call that popped the item after the lease with this fence, or
// may have.
func (j *judge) nextPop(it *item, fence int64) time.Duration {
	next := Never
	if j.terms.Kind == Configure && slices.ContainsFunc(it.gaps(), func(g gap) bool { return g.before.Fence-g.leases == fence+1 }) {
		return 0 // a lease without an answer came between
	}
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop || delivery.Fence > fence {
			next = min(next, delivery.Call)
		}
	}
	if next == Never { // it was never delivered, so any pop without an answer may have popped it
		for _, pop := range j.pops {
			next = min(next, pop.Call)
		}
	}
	return next
}

// rank is the key and the priority of a level.
type rank struct {
	key      string
	priority int64
}

// level is the items of one key and priority. Both trees hold, for each item, the end of the time in which it has
// been ready since before the moment in question.
type level struct {
	byReturn, byCall []time.Duration // of the pushes, sorted
	returned, called tree
}

// judgeOrder goes through the history by time and looks, for each pop, for an item that stands before the pop's
// item and was ready all the while.
func (j *judge) judgeOrder() {
	levels := make(map[rank]*level)
	var times []ready
	for _, it := range j.items {
		found := j.readiness(it)
		if len(found) == 0 {
			continue
		}
		times = append(times, found...)
		at := rank{it.push.Key, it.push.Priority}
		l := levels[at]
		if l == nil {
			l = &level{}
			levels[at] = l
		}
		l.byReturn = append(l.byReturn, it.push.Return)
		l.byCall = append(l.byCall, it.push.Call)
	}
	for _, l := range levels {
		slices.Sort(l.byReturn)
		slices.Sort(l.byCall)
		l.returned, l.called = newTree(len(l.byReturn)), newTree(len(l.byCall))
	}
	slices.SortFunc(times, func(a, b ready) int { return cmp.Compare(a.from, b.from) })
	slices.SortStableFunc(j.looks, func(a, b *Operation) int { return cmp.Compare(a.Call, b.Call) })
	hidden := make(map[*item]Finding)
	for _, look := range j.looks {
		for len(times) > 0 && times[0].from < look.Call {
			r := times[0]
			times = times[1:]
			l := levels[rank{r.item.push.Key, r.item.push.Priority}]
			at, _ := slices.BinarySearch(l.byReturn, r.item.push.Return)
			l.returned.raise(at, r)
			at, _ = slices.BinarySearch(l.byCall, r.item.push.Call)
			l.called.raise(at, r)
		}
		rule := PassedOver
		if look.Outcome == Nothing {
			rule = NotEmpty
		}
		passed := j.siblings(look)
		for at, l := range levels {
			if over := j.waiting(look, at, l); over != nil {
				passed = append(passed, over)
			}
		}
		for _, over := range passed {
			if j.doubtful(look) {
				hidden[over] = Finding{rule, []Operation{*look, *over.push}}
			} else {
				j.find(rule, look, over.push)
			}
		}
	}
	// A lease without an answer hides one item at most.
	if len(hidden) > len(j.doubts) {
		j.findings = slices.AppendSeq(j.findings, maps.Values(hidden))
	}
}

// doubtful reports whether a lease without an answer may hide an item from look. Gaps say
// it where items have keys.
func (j *judge) doubtful(look *Operation) bool {
	return j.terms.Kind != Configure && slices.ContainsFunc(j.doubts, func(d span) bool { return d.from <= look.Return && look.Call <= d.to })
}

// before returns an item of this level that was ready all the while and stands before look's item; if look got
// none, any such item.
func (l *level) before(look *Operation, priority int64, got *item) *item {
	all := len(l.byReturn)
	var best ready
	switch {
	case look.Outcome == Nothing,
		look.End == Min && priority < look.Priority,
		look.End == Max && priority > look.Priority:
		best = l.returned.longest(0, all)
	case priority != look.Priority || got == nil || got.push == nil:
		return nil
	case look.End == Min: // pushed before the other was
		until, _ := slices.BinarySearch(l.byReturn, got.push.Call)
		best = l.returned.longest(0, until)
	case look.End == Max: // pushed after the other was
		from, _ := slices.BinarySearch(l.byCall, got.push.Return+1)
		best = l.called.longest(from, all)
	}
	if best.item == nil || best.to <= look.Return || best.item == got {
		return nil
	}
	return best.item
}

// tree answers which of a range of items stays ready longest.
type tree struct {
	size  int
	nodes []ready
}

func newTree(size int) tree { return tree{size, make([]ready, 2*size)} }

func later(a, b ready) ready {
	if b.item != nil && (a.item == nil || b.to > a.to) {
		return b
	}
	return a
}

func (t tree) raise(at int, r ready) {
	for at += t.size; at > 0; at /= 2 {
		t.nodes[at] = later(t.nodes[at], r)
	}
}

func (t tree) longest(from, to int) ready {
	var best ready
	for from, to = from+t.size, to+t.size; from < to; from, to = from/2, to/2 {
		if from%2 == 1 {
			best = later(best, t.nodes[from])
			from++
		}
		if to%2 == 1 {
			to--
			best = later(best, t.nodes[to])
		}
	}
	return best
}
