package history

import (
	"cmp"
	"slices"
	"time"
)

// key is the history of the items of one key.
type key struct {
	items []*item
	alive spans // of its items: from the call of the push until one is certainly over

	// held are the times in which its places may be taken: by leases, and under key_order by items that have been
	// leased and are not over.
	held  spans
	holds []hold
}

// hold is one of the spans of held.
type hold struct {
	span
	item *item
}

// spans are times that may overlap: their beginnings and their ends, both sorted.
type spans struct{ from, to []time.Duration }

func newSpans[S any](all []S, of func(S) span) (s spans) {
	for _, one := range all {
		s.from, s.to = append(s.from, of(one).from), append(s.to, of(one).to)
	}
	slices.Sort(s.from)
	slices.Sort(s.to)
	return s
}

// overlap is how many of the spans touch this one.
func (s spans) overlap(o span) int {
	begun, _ := slices.BinarySearch(s.from, o.to+1)
	over, _ := slices.BinarySearch(s.to, o.from)
	return begun - over
}

// sortKeys sorts the items of a queue that makes promises about keys.
func (j *judge) sortKeys() {
	j.keys = make(map[string]*key)
	if j.terms.limit() == 0 {
		return
	}
	for _, it := range j.items {
		if it.push == nil || it.push.Key == "" {
			continue
		}
		k := j.keys[it.push.Key]
		if k == nil {
			k = &key{}
			j.keys[it.push.Key] = k
		}
		k.items = append(k.items, it)
		k.holds = append(k.holds, j.mayHold(it)...)
	}
	for _, k := range j.keys {
		slices.SortFunc(k.items, func(a, b *item) int { return cmp.Compare(a.push.Call, b.push.Call) })
		slices.SortFunc(k.holds, func(a, b hold) int { return cmp.Compare(a.from, b.from) })
		k.held = newSpans(k.holds, func(h hold) span { return h.span })
		k.alive = newSpans(k.items, func(it *item) span { return span{it.push.Call, it.surelyOver()} })
	}
}

// gap is the time in which a lease whose answer was lost may have had an item. In a queue with keys each item is
// leased until it is acknowledged, and its fences grow by one. So a missing fence identifies the item.
type gap struct {
	span
	before *Operation // the lease behind it
	leases int64
}

func (it *item) gaps() (gaps []gap) {
	from, fence := it.push.Call, int64(0)
	for _, delivery := range it.deliveries {
		if delivery.Fence > fence+1 {
			gaps = append(gaps, gap{span{from, delivery.Return}, delivery, delivery.Fence - fence - 1})
		}
		from, fence = delivery.Call, delivery.Fence
	}
	return gaps
}

// surelyOver is the moment from which the item is certainly gone.
func (it *item) surelyOver() time.Duration {
	end := Never
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop {
			end = min(end, delivery.Return)
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && s.Outcome == Done {
			end = min(end, s.Return)
		}
	}
	return end
}

// mayBeOver is the moment from which the item may be gone.
func (it *item) mayBeOver() time.Duration {
	end := Never
	for _, delivery := range it.deliveries {
		if delivery.Kind == Pop {
			end = min(end, delivery.Call)
		}
	}
	for _, s := range it.settlements {
		if s.Kind == Ack && (s.Outcome != Nothing || s.Repeated) {
			end = min(end, s.Call)
		}
	}
	return end
}

// mayHold are the times in which the item may take a place of its key.
func (j *judge) mayHold(it *item) (holds []hold) {
	if begun := it.mayHaveBegun(); j.terms.KeyOrder && begun != Never {
		return []hold{{span{begun, it.surelyOver()}, it}}
	}
	for i, lease := range it.deliveries {
		end := min(j.leaseMayEnd(it, lease), it.surelyOver())
		if i+1 < len(it.deliveries) {
			end = min(end, it.deliveries[i+1].Return)
		}
		holds = append(holds, hold{span{lease.Call, max(lease.Call, end)}, it})
	}
	for _, g := range it.gaps() {
		holds = append(holds, hold{g.span, it})
	}
	return holds
}

// mayHaveBegun is the moment from which the item may have been leased.
func (it *item) mayHaveBegun() time.Duration {
	first := Never
	for i, delivery := range it.deliveries {
		if i == 0 && delivery.Fence > 1 {
			return it.push.Call
		}
		first = min(first, delivery.Call)
	}
	return first
}

// leaseMayEnd is the latest end of a lease, if nothing else is known of its item.
func (j *judge) leaseMayEnd(it *item, lease *Operation) time.Duration {
	end := j.settledBy(lease.Return + lease.Lease)
	for _, s := range it.settlements {
		switch {
		case s.Fence != lease.Fence || s.Outcome == Nothing:
		case s.Kind != Extend && s.Outcome == Done:
			return s.Return
		case s.Return == Never:
			end = Never
		case s.Kind == Extend:
			end = max(end, j.settledBy(s.Return+s.Lease))
		}
	}
	return end
}

func (j *judge) judgeKeys() {
	if j.terms.Kind != Configure {
		return
	}
	j.judgeGaps()
	for _, it := range j.items {
		for _, found := range slices.Concat(it.deliveries, it.peeks) {
			switch {
			case it.push == nil: // a finding of its own
			case found.Key != it.push.Key:
				j.find(WrongKey, it.push, found)
			case found.Kind == Lease && (found.KeyFence > 0) != (found.Key != "" && j.terms.limit() == 1):
				j.find(NoKeyFence, it.push, found)
			}
		}
	}
	for _, k := range j.keys {
		j.judgeLimit(k)
		if j.terms.KeyOrder {
			j.judgeKeyOrder(k)
		}
		if j.terms.limit() == 1 {
			j.judgeKeyFences(k)
		}
	}
	for _, look := range j.looks {
		if look.Reason == blocked && !j.mayBeBlocked(look) {
			j.find(WrongBlocked, look)
		}
	}
}

// judgeGaps: a lease without an answer hides one lease at most.
func (j *judge) judgeGaps() {
	hidden, behind := int64(0), []*Operation(nil)
	for _, it := range j.items {
		if it.push == nil {
			continue
		}
		for _, g := range it.gaps() {
			hidden += g.leases
			behind = append(behind, g.before)
		}
	}
	if hidden > int64(len(j.doubts)) {
		j.find(FenceSkipped, behind...)
	}
}

// blocked is the reason of a pop that found only items that wait for their keys.
const blocked = "blocked"

// judgeLimit: no more leases than the limit certainly last at the same time.
func (j *judge) judgeLimit(k *key) {
	type moment struct {
		at    time.Duration
		lease *Operation
		ends  bool
	}
	var moments []moment
	for _, it := range k.items {
		for _, lease := range it.deliveries {
			if hold := j.leaseSpan(it, lease); lease.Kind == Lease && hold.from < hold.to {
				moments = append(moments, moment{hold.from, lease, false}, moment{hold.to, lease, true})
			}
		}
	}
	slices.SortFunc(moments, func(a, b moment) int {
		if a.at != b.at || a.ends == b.ends {
			return cmp.Compare(a.at, b.at)
		}
		if a.ends {
			return -1
		}
		return 1
	})
	var lasting []*Operation
	for _, m := range moments {
		if m.ends {
			lasting = slices.DeleteFunc(lasting, func(l *Operation) bool { return l == m.lease })
			continue
		}
		if lasting = append(lasting, m.lease); len(lasting) > j.terms.limit() {
			j.find(OverLimit, lasting...)
		}
	}
}

// judgeKeyOrder: while an item that was leased is certainly not over, no other item of its
// key is leased.
func (j *judge) judgeKeyOrder(k *key) {
	type engaged struct {
		span
		lease *Operation
	}
	var begun []engaged
	var leases []*Operation
	for _, it := range k.items {
		first := engaged{span{Never, it.mayBeOver()}, nil}
		for _, lease := range it.deliveries {
			if leases = append(leases, lease); lease.Return < first.from {
				first.from, first.lease = lease.Return, lease
			}
		}
		if first.from < first.to {
			begun = append(begun, first)
		}
	}
	slices.SortFunc(begun, func(a, b engaged) int { return cmp.Compare(a.from, b.from) })
	slices.SortFunc(leases, func(a, b *Operation) int { return cmp.Compare(a.Call, b.Call) })
	var longest, second engaged // of the leases that have begun, to the latest ends
	for _, lease := range leases {
		for len(begun) > 0 && begun[0].from < lease.Call {
			switch {
			case begun[0].to > longest.to:
				longest, second = begun[0], longest
			case begun[0].to > second.to:
				second = begun[0]
			}
			begun = begun[1:]
		}
		for _, other := range []engaged{longest, second} {
			if other.lease != nil && other.lease.Item != lease.Item && other.to > lease.Return {
				j.find(OutOfOrder, other.lease, lease)
			}
		}
	}
}

// judgeKeyFences: a lease has a higher fence than all leases of its key that were answered
// before it was asked for, and no two have the same one.
func (j *judge) judgeKeyFences(k *key) {
	var byCall []*Operation
	fences := make(map[int64]*Operation)
	for _, it := range k.items {
		for _, lease := range it.deliveries {
			if lease.KeyFence == 0 {
				continue
			}
			if other := fences[lease.KeyFence]; other != nil {
				j.find(KeyFence, other, lease)
			}
			fences[lease.KeyFence] = lease
			byCall = append(byCall, lease)
		}
	}
	byReturn := slices.Clone(byCall)
	slices.SortFunc(byCall, func(a, b *Operation) int { return cmp.Compare(a.Call, b.Call) })
	slices.SortFunc(byReturn, func(a, b *Operation) int { return cmp.Compare(a.Return, b.Return) })
	var highest *Operation
	for _, lease := range byCall {
		for len(byReturn) > 0 && byReturn[0].Return < lease.Call {
			if highest == nil || byReturn[0].KeyFence > highest.KeyFence {
				highest = byReturn[0]
			}
			byReturn = byReturn[1:]
		}
		if highest != nil && lease.KeyFence < highest.KeyFence {
			j.find(KeyFence, highest, lease)
		}
	}
}

// mayBeBlocked reports whether a key may have had all its leases, and an item more.
func (j *judge) mayBeBlocked(look *Operation) bool {
	meanwhile := span{look.Call, look.Return}
	for _, k := range j.keys {
		if k.held.overlap(meanwhile) >= j.terms.limit() && k.alive.overlap(meanwhile) > j.terms.limit() {
			return true
		}
	}
	return false
}

// waiting returns an item of this level that was ready all the while, did not have to wait for its key, and stands
// before look's item; if look got none, any such item.
func (j *judge) waiting(look *Operation, at rank, l *level) *item {
	got, k := j.items[look.Item], j.keys[at.key]
	over := l.before(look, at.priority, got)
	switch {
	case k == nil, look.Reason != "" && look.Reason != blocked:
		return over
	case got != nil && got.push != nil && got.push.Key == at.key:
		if j.terms.KeyOrder && got.mayHaveBegun() < look.Call {
			return nil
		}
		return over
	}
	meanwhile := span{look.Call, look.Return}
	switch n := k.held.overlap(meanwhile); {
	case n < j.terms.limit():
		return over
	case n == 1 && j.terms.KeyOrder:
		return j.returned(look, at, k.holder(meanwhile), got)
	}
	return nil
}

// holder returns the item of the only hold that touches this span.
func (k *key) holder(meanwhile span) *item {
	begun, _ := slices.BinarySearchFunc(k.holds, meanwhile.to, func(h hold, at time.Duration) int { return cmp.Compare(h.from, at+1) })
	for _, h := range slices.Backward(k.holds[:begun]) {
		if h.to >= meanwhile.from {
			return h.item
		}
	}
	return nil
}

// returned returns the item if it was given back before, was ready all the while, and stands before look's item.
func (j *judge) returned(look *Operation, at rank, it, got *item) *item {
	if it.push.Priority != at.priority || it == got {
		return nil
	}
	stands := look.Outcome == Nothing || it.push.Priority < look.Priority ||
		it.push.Priority == look.Priority && got != nil && got.push != nil && it.push.Return < got.push.Call
	ready := slices.ContainsFunc(j.readiness(it), func(r ready) bool { return r.from < look.Call && r.to > look.Return })
	if stands && ready {
		return it
	}
	return nil
}
