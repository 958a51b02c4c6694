package fdbpq_test

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

type modelPop struct {
	due        int64
	end        fdbpq.End
	band       fdbpq.Band
	lease      time.Duration
	generation int
	taken      []itemView
	leases     []modelLease
	nothing    bool // it popped nothing, and never will
	repeated   bool // which is known when the queue is deleted
}

// selection is what pops and peeks ask for.
type selection struct {
	end      fdbpq.End
	band     fdbpq.Band
	limit    int
	maxBytes int
	popID    string
	repeated bool
	anyLease bool // the lease is a default
	holders  []string
}

var everyPriority = fdbpq.Band{Low: math.MinInt64, High: math.MaxInt64}

// order returns the ready items of a band as an end gives them out.
func (q *modelQueue) order(sel selection) []*modelItem {
	all := slices.DeleteFunc(q.in(fdbpq.StateReady), func(item *modelItem) bool {
		return item.priority < sel.band.Low || item.priority > sel.band.High
	})
	if sel.end == fdbpq.Min {
		return all
	}
	slices.Reverse(all)
	if q.config.Ties == fdbpq.TiesOldest {
		slices.SortStableFunc(all, func(a, b *modelItem) int {
			return cmp.Or(cmp.Compare(b.priority, a.priority), compareItems(a, b))
		})
	}
	return all
}

// choose returns which items a selection hits, and which that are past their
// TTL stand before the last of them.
func (q *modelQueue) choose(sel selection, now int64, got outcome) (hit, passed []modelItem, more bool) {
	size, left := int64(0), q.costTokens(now)
	turns := q.turns(sel, now, got)
	for item := turns.next(); item != nil; item = turns.next() {
		switch {
		case len(hit) == sel.limit || left <= 0:
			return hit, passed, false
		case item.expired(now):
			if len(passed) == 256 {
				return hit, passed, len(hit) == 0
			}
			turns.pass(item)
			passed = append(passed, *item)
		case len(hit) > 0 && size+item.size() > int64(sel.maxBytes):
			return hit, passed, false
		default:
			size += item.size()
			left -= item.costs()
			turns.take(item)
			hit = append(hit, *item)
		}
	}
	return hit, passed, false
}

// complete adds what the counters say to a pop or a peek from a band.
func (q *modelQueue) complete(out *outcome, band fdbpq.Band, now int64) {
	n := q.counts()
	switch {
	case len(out.Items) > 0:
		out.Ready = n.Ready
	case n.Ready > 0 && q.allows(now) == 0:
		out.Reason = fdbpq.ReasonRate
	case n.Ready > 0 && q.blocks():
		out.Reason = fdbpq.ReasonBlocked
	case n.Ready > 0 && len(q.order(selection{band: band})) == 0:
		out.Reason, out.Ready = fdbpq.ReasonBand, n.Ready
	case n.Leased > 0 && n.Ready == 0:
		out.Reason = fdbpq.ReasonLeased
	case n.Delayed > 0 && n.Ready == 0:
		out.Reason = fdbpq.ReasonDelayed
	default:
		out.Reason = fdbpq.ReasonEmpty
	}
}

func (m *model) peek(queue string, at moment, sel selection, got outcome) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Reason: fdbpq.ReasonUnknown}
	}
	if refused := q.refuses(&sel, true); refused != "" {
		return outcome{Err: refused}
	}
	if q.paused {
		return outcome{Reason: fdbpq.ReasonPaused}
	}
	out := outcome{Retry: got.Retry} // which a peek may say
	size := int64(0)
	sel.limit = int(min(int64(sel.limit), q.allows(at.now)))
	left := q.costTokens(at.now)
	turns := q.turns(sel, at.now, got)
	turns.peeks = true
	for item := turns.next(); item != nil && len(out.Items) < sel.limit && left > 0; item = turns.next() {
		if item.expired(at.now) {
			turns.pass(item)
			continue
		}
		if size += item.size(); len(out.Items) > 0 && size > int64(sel.maxBytes) {
			break
		}
		turns.take(item)
		left -= item.costs()
		out.Items = append(out.Items, item.view())
	}
	q.complete(&out, sel.band, at.now)
	return out
}

// pop is Pop, and Lease when lease is not 0.
func (m *model) pop(queue string, at moment, sel selection, lease time.Duration, got outcome) outcome {
	q := m.queue(queue)
	final := sel.popID != "" && sel.repeated
	if q == nil && !final {
		return outcome{Reason: fdbpq.ReasonUnknown}
	}
	if q == nil {
		q = m.named(queue)
		q.config = defaultConfig()
	}
	if before, known := q.pops[sel.popID]; known {
		if before.due > at.now {
			return m.repeatPop(q, at, sel, lease, before)
		}
		m.forgetTimer(due{at: before.due, kind: "pop", queue: q.name, id: sel.popID})
		delete(q.pops, sel.popID)
	}
	if refused := q.refuses(&sel, lease > 0); q.exists && refused != "" {
		return outcome{Err: refused}
	}
	if q.paused && !final {
		return outcome{Reason: fdbpq.ReasonPaused}
	}
	if sel.popID != "" && q.counts().Remembered >= q.config.DedupLimit {
		return outcome{Err: "remembered"}
	}
	nothing := modelPop{
		due: at.now + q.rememberNothing(), end: sel.end, band: sel.band, lease: lease, nothing: true, repeated: true,
	}
	switch {
	case !q.exists:
		q.pops[sel.popID] = nothing
		return outcome{Reason: fdbpq.ReasonUnknown, Final: true}
	case q.paused:
		q.pops[sel.popID] = nothing
		return outcome{Reason: fdbpq.ReasonPaused, Final: true}
	}
	if sel.limit = int(min(int64(sel.limit), q.allows(at.now))); sel.limit == 0 {
		out := outcome{Final: final}
		if final {
			q.pops[sel.popID] = nothing
		}
		q.complete(&out, sel.band, at.now)
		q.retry(&out, at.now, outcome{})
		return out
	}
	hit, passed, more := q.choose(sel, at.now, got)
	out := outcome{More: more}
	m.spend(q, hit, at.now)
	for i := range passed {
		q.remove(passed[i].number)
		m.expire(q, at, passed[i], &out)
	}
	pop := modelPop{
		due: at.now + int64(q.config.DedupWindow), end: sel.end, band: sel.band, lease: lease, generation: q.generation,
		repeated: sel.repeated,
	}
	for n, item := range hit {
		out.Leased = lease
		if lease == 0 {
			m.finish(q, at, &item, modelResult{finish: fdbpq.FinishDone, fence: 1})
			q.remove(item.number)
			out.Items = append(out.Items, item.view())
			continue
		}
		held := q.byNumber(item.number)
		held.state, held.due, held.returnPriority = fdbpq.StateLeased, at.now+int64(lease), held.priority
		held.lease = 1
		held.spent, held.since, held.givenBack, held.takenAway = at.now, at.now, false, false
		held.tokenBack, held.keyTokenBack, held.costBack, held.charged = false, false, false, 0
		if q.ratesCost() {
			held.charged = held.costs()
		}
		if names := sel.holders; len(names) > 0 {
			held.holder = names[min(n, len(names)-1)]
		}
		if held.untilLeased {
			held.unique = ""
		}
		held.keyFence = m.nextKeyFence(q, held.key, at)
		held.fence, held.minFence, held.extraAnswers = max(held.fence+1, held.minFence), 0, 0
		out.Items = append(out.Items, q.leased(held, at))
		pop.leases = append(pop.leases, modelLease{held.number, held.fence})
	}
	if lease == 0 {
		pop.taken = slices.Clone(out.Items)
	}
	switch {
	case sel.popID != "" && len(out.Items) > 0:
		q.pops[sel.popID] = pop
	case final && !out.More:
		q.pops[sel.popID] = nothing
		out.Final = true
	}
	q.complete(&out, sel.band, at.now)
	if len(out.Items) == 0 && !out.More {
		q.retry(&out, at.now, got)
	}
	return out
}

// rememberNothing is for how long the queue remembers a pop that found nothing.
func (q *modelQueue) rememberNothing() int64 {
	return max(int64(q.config.DedupWindow), int64(3*time.Minute))
}

// repeat answers a pop that was answered before.
func (m *model) repeatPop(q *modelQueue, at moment, sel selection, lease time.Duration, before modelPop) outcome {
	if before.end != sel.end || before.band != sel.band || before.lease != lease && !sel.anyLease && !before.nothing {
		return outcome{Err: "replay"}
	}
	if sel.repeated {
		window := int64(q.config.DedupWindow)
		if before.nothing {
			window = q.rememberNothing()
		}
		again := before
		again.repeated, again.due = true, max(before.due, at.now+window)
		q.pops[sel.popID] = again
	}
	if before.nothing {
		out := outcome{Final: true, Reason: fdbpq.ReasonUnknown}
		switch {
		case q.paused:
			out.Reason = fdbpq.ReasonPaused
		case q.exists:
			q.complete(&out, sel.band, at.now)
		}
		return out
	}
	out := outcome{Items: slices.Clone(before.taken)}
	for _, l := range before.leases {
		item := q.byNumber(l.number)
		if item != nil && item.state == fdbpq.StateLeased && item.fence == l.fence && item.due > at.now {
			item.extraAnswers++
			out.Items = append(out.Items, q.leased(item, at))
		}
	}
	out.Leased = before.lease
	if len(out.Items) == 0 {
		return outcome{Err: "lost: gone"}
	}
	q.complete(&out, sel.band, at.now)
	return out
}
