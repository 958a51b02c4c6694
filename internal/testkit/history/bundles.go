package history

import (
	"cmp"
	"slices"
)

// infer returns the operations and the items of pushes without an answer that certainly took place: they took place
// before one of their items was seen. The pushes of a bundle took place together.
func infer(operations []Operation) (all []Operation, inferred map[string]bool) {
	open := make(map[string][]int) // pushes that took place together
	of := make(map[string]string)  // by item
	for i, o := range operations {
		if o.Kind == Push && o.Outcome == Unknown {
			name := cmp.Or(o.Bundle, o.Item)
			open[name], of[o.Item] = append(open[name], i), name
		}
	}
	if len(open) == 0 {
		return operations, nil
	}
	all, inferred = slices.Clone(operations), make(map[string]bool)
	for _, seen := range operations {
		if seen.Outcome != Done || seen.Kind != Pop && seen.Kind != Lease && seen.Kind != Peek {
			continue
		}
		for _, i := range open[of[seen.Item]] {
			push := &all[i]
			push.Outcome, push.Return = Done, min(push.Return, max(push.Call, seen.Return))
			inferred[push.Item] = true
		}
	}
	return all, inferred
}

// judgeBundles: the items of a bundle came out in the order of the queue.
func (j *judge) judgeBundles() {
	last := make(map[string]*Operation)
	for _, look := range j.looks {
		if look.Bundle == "" || look.Outcome != Done {
			continue
		}
		before := last[look.Bundle]
		last[look.Bundle] = look
		if before != nil && before.Priority != look.Priority && (before.Priority > look.Priority) == (look.End == Min) {
			j.find(Disorder, before, look)
		}
	}
}

// siblings returns the items of the same bundle as look's item that stand before it and were ready all the while.
func (j *judge) siblings(look *Operation) (before []*item) {
	got := j.items[look.Item]
	if look.Outcome != Done || got.push == nil || got.push.Bundle == "" || j.terms.KeyOrder && got.mayHaveBegun() < look.Call {
		return nil
	}
	all := j.bundles[got.push.Bundle]
	at := slices.Index(all, got)
	if all = all[:at]; look.End == Max {
		all = j.bundles[got.push.Bundle][at+1:]
	}
	for _, it := range all {
		same := it.push.Priority == got.push.Priority && (it.push.Key == got.push.Key || j.terms.limit() == 0)
		if same && slices.ContainsFunc(j.readiness(it), func(r ready) bool { return r.from < look.Call && r.to > look.Return }) {
			before = append(before, it)
		}
	}
	return before
}

// moments groups the operations that happen at one moment: the operations of a bundle, unless some of them have no answer.
func moments(operations []Operation) (all [][]Operation) {
	at, mixed := make(map[string]int), make(map[string]bool)
	first := make(map[string]Outcome)
	for _, o := range operations {
		if outcome, known := first[o.Bundle]; known && (outcome == Unknown) != (o.Outcome == Unknown) {
			mixed[o.Bundle] = true
		}
		first[o.Bundle] = o.Outcome
	}
	for _, o := range operations {
		n, known := at[o.Bundle]
		if o.Bundle == "" || mixed[o.Bundle] || !known {
			n, all = len(all), append(all, nil)
			at[o.Bundle] = n
		}
		all[n] = append(all[n], o)
	}
	return all
}

// at returns the queues that operations of one moment, with their answers, may leave behind. Without answers all of
// them took effect, or none.
func (q queue) at(moment []Operation, known map[pair]bool, terms *Operation) []queue {
	states := []queue{q}
	for _, o := range moment {
		var next []queue
		for _, state := range states {
			if o.Kind == Push && state.anyBehind(o.Item, known) {
				continue
			}
			after := state.after(o, terms)
			if o.Outcome == Unknown && len(moment) > 1 && len(after) > 0 {
				after = after[len(after)-1:] // the queue in which they took effect
			}
			next = append(next, after...)
		}
		states = next
	}
	if len(moment) > 1 && moment[0].Outcome == Unknown {
		states = append(states, q)
	}
	return states
}
