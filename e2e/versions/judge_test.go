package versions_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"
)

// judge returns what of the journal cannot be, when all queues of its users are empty.
func (j *journal) judge() (findings []string) {
	findings = slices.Clone(j.wrong)
	find := func(it *item, format string, args ...any) {
		findings = append(findings, fmt.Sprintf("%s in %s: ", it.name, it.queue)+fmt.Sprintf(format, args...))
	}
	for _, name := range slices.Sorted(maps.Keys(j.items)) {
		it := j.items[name]
		j.judgeEnds(it, find)
		j.judgeHandouts(it, find)
		it.judgeCounts(find)
	}
	j.judgeUnique(find)
	return findings
}

type finder func(it *item, format string, args ...any)

// judgeEnds: an item whose push succeeded is gone by one of the ways that users know, and by one alone.
func (j *journal) judgeEnds(it *item, find finder) {
	var sure []event
	for _, e := range it.ends {
		if e.really == certain {
			sure = append(sure, e)
		}
	}
	mayExpire := it.ttl > 0 && j.now() >= it.pushed.call+it.ttl-j.slack
	switch {
	case it.push == certain && len(it.ends) == 0 && !mayExpire:
		find(it, "its push succeeded, and it is lost; pushed %v, handed out %d times, failed %v, returned %v", it.pushed, len(it.handouts), it.failures, it.returns)
	case len(sure) > 1:
		find(it, "it is gone twice: %v", sure)
	}
	for _, e := range sure {
		for _, h := range it.handouts {
			if e.before(h.span) {
				find(it, "it was gone (%s %v), and came out again (%v, fence %d, dead %q)", e.what, e.span, h.span, h.fence, h.dead)
			}
		}
	}
}

// judgeHandouts: an item comes out behind its push and its delay, with fences that grow, and none of them when its
// queue is paused. A dead letter has died of what happened.
func (j *journal) judgeHandouts(it *item, find finder) {
	for _, h := range it.handouts {
		switch {
		case it.push == never:
			find(it, "its push was refused, and it came out (%v)", h.span)
		case h.answer < it.pushed.call+it.delay-j.slack && !it.mortal(): // a dead letter has no delay
			find(it, "its delay of %s began at %s, and it came out at %s", it.delay, it.pushed.call, h.answer)
		}
		for _, p := range j.pauses {
			if p.queue == it.queue && h.dead == "" && !h.repeated && p.call < h.call && h.answer < p.answer {
				find(it, "it came out (%v) while its queue was paused (%v)", h.span, p.span)
			}
		}
		for _, later := range it.handouts {
			if h.id == later.id && h.before(later.span) && h.fence > 0 && later.fence > 0 && h.fence >= later.fence {
				find(it, "its fence was %d, and later %d", h.fence, later.fence)
			}
		}
		switch failed := len(it.failures); h.dead {
		case "", "interruptions":
		case "max_deliveries":
			if failed < fewest {
				find(it, "it died of too many failures after %d of them", failed)
			}
		case "expired":
			if it.ttl == 0 || h.answer < it.pushed.call+it.ttl-j.slack {
				find(it, "it died of its age at %s, pushed %v with a TTL of %s", h.answer, it.pushed, it.ttl)
			}
		default:
			if !slices.Contains(it.given, h.dead) {
				find(it, "it died with the reason %q, and was given up with %q", h.dead, it.given)
			}
		}
	}
}

// mayHaveDied reports whether the item may have been a dead letter, and come back with a new history.
func (it *item) mayHaveDied() bool {
	return len(it.failures) >= fewest || len(it.handouts) >= fewest || len(it.given) > 0 || it.mortal()
}

// mortal reports whether the TTL of the item may be over while users look.
func (it *item) mortal() bool { return it.ttl > 0 && it.ttl < time.Minute }

// judgeCounts: an item remembers how its leases ended.
func (it *item) judgeCounts(find finder) {
	if it.mayHaveDied() {
		return
	}
	for _, h := range it.handouts {
		if !h.counted || h.dead != "" {
			continue
		}
		for _, count := range []struct {
			what   string
			events []event
			shown  int64
		}{{"failures", it.failures, h.failures}, {"returns", it.returns, h.returned}} {
			least, most := int64(0), int64(0)
			for _, e := range count.events {
				if e.really == certain && e.before(h.span) {
					least++
				}
				if e.call < h.answer {
					most++
				}
			}
			if count.shown < least || count.shown > most {
				find(it, "it came out (%v) with %d %s: expected %d to %d", h.span, count.shown, count.what, least, most)
			}
		}
		ranOut := int64(0)
		for _, earlier := range it.handouts {
			if earlier.before(h.span) && earlier.lease > 0 && !earlier.settled && !earlier.repeated {
				ranOut++
			}
		}
		if h.interrupted < ranOut && !it.revoked {
			find(it, "it came out (%v) with %d interruptions, and %d of its leases ran out", h.span, h.interrupted, ranOut)
		}
	}
}

// lives are the times in which an item has its unique value for certain, and in which it may have it.
func (it *item) lives() (sure, maybe span) {
	sure, maybe = span{it.pushed.answer, forever}, span{it.pushed.call, forever}
	for _, e := range it.ends {
		sure.answer = min(sure.answer, e.call)
		if e.really == certain {
			maybe.answer = min(maybe.answer, e.answer)
		}
	}
	for _, h := range it.handouts {
		if it.untilLeased || h.dead != "" {
			maybe.answer = min(maybe.answer, h.answer)
		}
	}
	if it.untilLeased || it.mayHaveDied() {
		sure.answer = 0 // nobody may have received the lease, or the item is dead
	}
	return sure, maybe
}

// judgeUnique: a queue has one item of a value at a time, and each push of a value that no item has adds one.
func (j *journal) judgeUnique(find finder) {
	of := make(map[string][]*item)
	for _, it := range j.items {
		if it.unique != "" {
			of[it.queue+" "+it.unique] = append(of[it.queue+" "+it.unique], it)
		}
	}
	for _, all := range of {
		slices.SortFunc(all, func(a, b *item) int { return cmp.Compare(a.pushed.call, b.pushed.call) })
		for _, it := range all {
			free := true
			for _, other := range all {
				if other == it || other.push == never {
					continue
				}
				sure, maybe := other.lives()
				if it.push == certain && !it.repeated && other.push == certain && sure.call < it.pushed.call && it.pushed.answer < sure.answer {
					find(it, "it was pushed (%v) while %s had its unique value (%v), which ended by %v", it.pushed, other.name, sure, other.ends)
				}
				free = free && (maybe.call > it.pushed.answer || maybe.answer < it.pushed.call)
			}
			if it.duplicate && free {
				find(it, "it was refused (%v), and no item had its unique value", it.pushed)
			}
		}
	}
}
