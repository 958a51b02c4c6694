package fdbpq_test

import (
	"cmp"
	"slices"
	"time"

	"github.com/pqbridge/pqbridge/fdbpq"
)

// explain is what keeps the items of a queue from being handed out.
func (m *model) explain(queue string, at moment, got outcome) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	said := got.Explained
	right := q.reasons(at, said)
	for i := range right {
		right[i].Full = q.takesNone()
	}
	return outcome{OK: true, Explained: chosen(right, said)}
}

// chosen is what was said, if it is one of what may be said, and otherwise the first of that. Who looks at a few of many rows has
// a choice.
func chosen(right []explainView, said explainView) explainView {
	for _, one := range right {
		for _, times := range [][2]*int64{{&one.Since, &said.Since}, {&one.Until, &said.Until}} {
			if off := time.Duration(*times[0] - *times[1]); off.Abs() < time.Millisecond {
				*times[0] = *times[1]
			}
		}
		if one.Item == "" && said.Item != "" {
			one.Item = said.Item // of which nobody has seen the id
		}
		if one == said {
			return said
		}
	}
	return right[0]
}

// takesNone reports whether a queue refuses an item without a byte.
func (q *modelQueue) takesNone() bool {
	n := q.counts()
	full := q.config.MaxLength > 0 && n.Length() >= q.config.MaxLength || q.config.MaxBytes > 0 && n.Bytes+n.Overhead+(n.Length()+1)*512 > q.config.MaxBytes
	return full && q.config.Overflow == fdbpq.OverflowRefuse
}

func (q *modelQueue) reasons(at moment, said explainView) []explainView {
	if q.paused {
		return []explainView{{Cause: fdbpq.ReasonPaused}}
	}
	turns := q.turns(selection{end: fdbpq.Min, band: everyPriority}, at.now, outcome{})
	turns.peeks = true
	for item := turns.next(); item != nil; item = turns.next() {
		if !item.expired(at.now) {
			return []explainView{q.rateReached(at)}
		}
		turns.pass(item)
	}
	var over []*modelItem // ready, and past their TTL
	var right []explainView
	for _, item := range q.in(fdbpq.StateReady) {
		if !item.expired(at.now) {
			right = q.keyReasons(at, item.key)
			break
		}
		over = append(over, item)
	}
	leased, delayed := q.in(fdbpq.StateLeased), q.in(fdbpq.StateDelayed)
	switch {
	case right != nil:
	case len(leased) > 0:
		right = q.leaseReasons(at, leased, said)
	case len(delayed) > 0:
		right = delayReasons(at, delayed)
	default:
		right = []explainView{{Cause: fdbpq.ReasonEmpty}}
	}
	if len(over) >= looksAtKeys || manyToLookAt(over) {
		right = append(right, explainView{Cause: fdbpq.ReasonBlocked})
	}
	return right
}

func (q *modelQueue) rateReached(at moment) explainView {
	if q.allows(at.now) > 0 {
		return explainView{Cause: fdbpq.ReasonFlows}
	}
	return explainView{Cause: fdbpq.ReasonRate, Until: at.display(at.now + int64(q.rateWait(at.now)))}
}

// keyReasons says why no item of a key is handed out: its pause, its holders, its rate.
func (q *modelQueue) keyReasons(at moment, key string) []explainView {
	v := explainView{Cause: fdbpq.ReasonBlocked, Key: key}
	if paused := q.settings[key].Paused; paused != nil && *paused {
		v.WaitsFor = fdbpq.WaitsForPause
		return []explainView{v}
	}
	var holders []*modelItem
	for i := range q.items {
		item := &q.items[i]
		if item.key == key && (item.state == fdbpq.StateLeased || item.state == fdbpq.StateDelayed && item.held) {
			holders = append(holders, item)
		}
	}
	limit := q.limitOf(key)
	if limit == 0 || int64(len(holders)) < limit {
		v.WaitsFor = q.rateThatWaits(key, at.now)
		v.Until = at.display(at.now + int64(q.keyWait(key, at.now)))
		return []explainView{v}
	}
	if v.WaitsFor = fdbpq.WaitsForKeyLimit; q.config.KeyOrder {
		v.WaitsFor = fdbpq.WaitsForKeyOrder
	}
	var right []explainView
	leased := false
	for _, item := range holders {
		one := v
		one.Item, one.Holder = item.id, item.holder
		if !item.ofLink {
			one.Until = at.display(item.due)
		}
		if item.state == fdbpq.StateLeased && !item.ofLink {
			one.Since, leased = at.display(item.since), true
		}
		if item.state == fdbpq.StateDelayed {
			one.Holder = ""
		}
		right = append(right, one)
	}
	if !leased || manyToLookAt(q.in(fdbpq.StateLeased)) {
		right = append(right, v)
	}
	return right
}

// leaseReasons says who has all the items.
func (q *modelQueue) leaseReasons(at moment, leased []*modelItem, said explainView) []explainView {
	leased = slices.DeleteFunc(leased, func(item *modelItem) bool { return item.ofLink })
	if len(leased) == 0 {
		var right []explainView
		most := 0
		for name, l := range q.links {
			if len(l.out) >= most {
				if len(l.out) > most {
					right, most = nil, len(l.out)
				}
				right = append(right, explainView{Cause: fdbpq.ReasonHeld, Link: name, Since: said.Since})
			}
		}
		return right
	}
	slices.SortFunc(leased, func(a, b *modelItem) int { return cmp.Compare(a.since, b.since) })
	all := len(q.in(fdbpq.StateLeased)) <= looksAtLeases && !said.AtLeast
	var right []explainView
	for _, item := range leased {
		if all && item.since != leased[0].since {
			break
		}
		right = append(right, explainView{
			Cause: fdbpq.ReasonLeased, Item: item.id, Holder: item.holder, Since: at.display(item.since), Until: at.display(item.due), AtLeast: !all,
		})
	}
	if leased[0].since == at.now || !all {
		right = append(right, explainView{Cause: fdbpq.ReasonLeased, AtLeast: true}) // none is older than the moment
	}
	return right
}

// manyToLookAt reports whether an explanation may leave out some of these items: it reads at most 32 of them, and
// 64 KiB of rows, in which a zero byte takes two.
func manyToLookAt(items []*modelItem) bool {
	var bytes int64
	for _, item := range items {
		bytes += 2*item.size() + 1024
	}
	return len(items) > 32 || bytes > 64<<10
}

// delayReasons says which of the first items becomes ready first.
func delayReasons(at moment, delayed []*modelItem) []explainView {
	slices.SortFunc(delayed, func(a, b *modelItem) int { return cmp.Compare(a.due, b.due) })
	var right []explainView
	for _, item := range delayed {
		one := explainView{Cause: fdbpq.ReasonDelayed, Item: item.id, Until: at.display(item.due)}
		if item.due == delayed[0].due {
			right = append(right, one)
		}
		if manyToLookAt(delayed) {
			one.AtLeast = true
			right = append(right, one)
		}
	}
	return right
}

// explainItem is what keeps an item from being handed out.
func (m *model) explainItem(queue, id string, at moment, got outcome) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{}
	}
	item := q.byID(id)
	if item == nil {
		return outcome{}
	}
	return outcome{OK: true, Explained: chosen(q.itemReasons(at, item, got.Explained), got.Explained)}
}

func (q *modelQueue) itemReasons(at moment, item *modelItem, said explainView) []explainView {
	switch {
	case item.ofLink:
		v := explainView{Cause: fdbpq.ReasonHeld, Item: item.id, Since: said.Since}
		for name, l := range q.links {
			if slices.Contains(l.out, item.number) {
				v.Link = name
			}
		}
		return []explainView{v}
	case item.state == fdbpq.StateLeased:
		return []explainView{{Cause: fdbpq.ReasonLeased, Item: item.id, Holder: item.holder, Since: at.display(item.since), Until: at.display(item.due)}}
	case item.state == fdbpq.StateDelayed:
		return []explainView{{Cause: fdbpq.ReasonDelayed, Item: item.id, Until: at.display(item.due)}}
	case q.paused:
		return []explainView{{Cause: fdbpq.ReasonPaused}}
	}
	if item.key == "" || !q.blocks() {
		return []explainView{q.rateReached(at)}
	}
	turns := q.turns(selection{end: fdbpq.Min, band: everyPriority}, at.now, outcome{})
	var first *modelItem // of its key, in the order in which they are handed out
	for _, other := range q.in(fdbpq.StateReady) {
		if other.key == item.key && q.keyAhead(other) == 0 {
			first = other
		}
	}
	paused := q.settings[item.key].Paused
	switch {
	case paused != nil && *paused:
		return q.keyReasons(at, item.key)
	case first.number == item.number && turns.may(item):
		return []explainView{q.rateReached(at)}
	case first.number == item.number, !turns.may(first) && (!q.config.KeyOrder || q.full(item.key)):
		return q.keyReasons(at, item.key)
	case q.config.KeyOrder:
		return []explainView{{Cause: fdbpq.ReasonBlocked, WaitsFor: fdbpq.WaitsForKeyOrder, Key: item.key, Item: first.id}}
	}
	return []explainView{q.rateReached(at)}
}

// rateThatWaits is which of a key's rates allows no delivery, "" if they do.
func (q *modelQueue) rateThatWaits(key string, now int64) fdbpq.WaitsFor {
	switch {
	case q.keyTokens(key, now) == 0:
		return fdbpq.WaitsForKeyRate
	case q.keyCostTokens(key, now) <= 0:
		return fdbpq.WaitsForKeyCost
	}
	return ""
}

// keyView is what is shown of a key.
type keyView struct {
	Ready              int
	Rate               fdbpq.Rate
	CostRate           fdbpq.CostRate
	Tokens, CostTokens int64
	WaitsFor           fdbpq.WaitsFor
	Retry              time.Duration
}

// key is what is shown of a key.
func (m *model) key(queue, key string, at moment) outcome {
	q := m.queue(queue)
	if q == nil {
		return outcome{Err: "no queue"}
	}
	v := keyView{Rate: q.rateOf(key), CostRate: q.costRateOf(key)}
	for _, item := range q.in(fdbpq.StateReady) {
		if item.key == key {
			v.Ready++
		}
	}
	if v.Rate != (fdbpq.Rate{}) {
		v.Tokens = q.keyTokens(key, at.now)
	}
	if v.CostRate != (fdbpq.CostRate{}) {
		v.CostTokens = q.keyCostTokens(key, at.now)
	}
	waits := q.rateThatWaits(key, at.now)
	if waits != "" {
		v.Retry = q.keyWait(key, at.now)
	}
	paused := q.settings[key].Paused
	switch {
	case v.Ready == 0:
	case q.paused, paused != nil && *paused:
		v.WaitsFor = fdbpq.WaitsForPause
	case q.full(key) && q.config.KeyOrder:
		v.WaitsFor = fdbpq.WaitsForKeyOrder
	case q.full(key):
		v.WaitsFor = fdbpq.WaitsForKeyLimit
	default:
		v.WaitsFor = waits
	}
	return outcome{OK: true, Key: v}
}

// full reports whether as many items of a key are leased as may be.
func (q *modelQueue) full(key string) bool {
	n := int64(0)
	for i := range q.items {
		if item := &q.items[i]; item.key == key && (item.state == fdbpq.StateLeased || item.state == fdbpq.StateDelayed && item.held) {
			n++
		}
	}
	limit := q.limitOf(key)
	return limit > 0 && n >= limit
}
