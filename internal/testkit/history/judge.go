package history

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Finding is a promise that was not kept.
type Finding struct {
	Rule       Rule
	Operations []Operation // that contradict each other
}

// Rule names a promise.
type Rule string

const (
	Invented   Rule = "handed out, and never pushed"
	Early      Rule = "handed out before it was pushed"
	Lost       Rule = "acknowledged, and never came out"
	Twice      Rule = "came out again after it was gone"
	Overlap    Rule = "two leases at the same time"
	SameFence  Rule = "two leases with one fence"
	Revoked    Rule = "a lease was refused while it lasted"
	Stale      Rule = "a settlement held after another lease was given"
	PassedOver Rule = "passed over"
	NotEmpty   Rule = "nothing found, while an item was ready"
	Shown      Rule = "shown after it was gone"
	Torn       Rule = "a part of a bundle came out, and the rest never did"
	Disorder   Rule = "a bundle of items in another order than that of the queue"

	WrongKey     Rule = "came out with another key"
	OverLimit    Rule = "more leases of a key than its limit at the same time"
	OutOfOrder   Rule = "another item of a key before the first one was over"
	KeyFence     Rule = "the fence of a key did not grow"
	NoKeyFence   Rule = "a fence of a key is missing, or is too much"
	FenceSkipped Rule = "more fences are missing than leases without an answer"
	WrongBlocked Rule = "blocked, while no key had all of its leases"
)

func (f Finding) String() string {
	lines := []string{string(f.Rule) + ":"}
	for _, o := range f.Operations {
		lines = append(lines, "  "+o.String())
	}
	return strings.Join(lines, "\n")
}

// Bridges says how many bridges served the clients. The protocol promises less of
// several that share a store.
type Bridges int

const (
	One Bridges = iota
	Several
)

// betweenBridges is by how much the clocks of several bridges may differ.
const betweenBridges = time.Second

// slack is how much earlier than promised, by the clients' clock, a lease of this
// length may end.
func (j *judge) slack(lease time.Duration) time.Duration {
	measured := 100*time.Millisecond + lease/100
	if j.bridges == Several {
		return measured + betweenBridges
	}
	return measured
}

// settling is how long after the end of a lease whose answer was lost the item may still be out: after a start a
// sweep waits for acknowledgements.
const settling = 30 * time.Second

// settledBy is the end of settling behind the end of a lease. Outages do not count: nobody sweeps during one.
func (j *judge) settledBy(end time.Duration) time.Duration {
	settled := end + settling
	for _, o := range j.outages {
		if o.to > end && o.from < settled {
			settled += o.to - max(o.from, end)
		}
	}
	return settled
}

// outages returns the times of more than some seconds in which requests were under way and none was answered.
func outages(operations []Operation) (all []span) {
	const least = 5 * time.Second
	answered := slices.DeleteFunc(slices.Clone(operations), func(o Operation) bool { return o.Return == Never })
	slices.SortFunc(answered, func(a, b Operation) int { return cmp.Compare(b.Return, a.Return) })
	called := Never // of the first request without an answer
	for i, o := range answered {
		called = min(called, o.Call)
		out := span{called, o.Return}
		if i+1 < len(answered) {
			out.from = max(called, answered[i+1].Return)
		}
		if out.to-out.from > least {
			all = append(all, out)
		}
	}
	slices.Reverse(all)
	return all
}

// item is the history of one item.
type item struct {
	push        *Operation
	deliveries  []*Operation // in the order of their fences, the plain pop last
	settlements []*Operation // Ack, Nak and Extend
	peeks       []*Operation
}

// Judge reports contradictions that no order of the operations explains. The history has to be complete: at its end
// all items had been popped.
func Judge(operations []Operation, bridges Bridges) []Finding {
	j := newJudge(operations, bridges)
	j.judgeItems()
	j.judgeBundles()
	j.judgeKeys()
	j.judgeOrder()
	slices.SortStableFunc(j.findings, func(a, b Finding) int {
		return cmp.Compare(a.Operations[0].Call, b.Operations[0].Call)
	})
	return j.findings
}

type judge struct {
	bridges  Bridges
	terms    Operation // Configure, if there was one
	keys     map[string]*key
	outages  []span
	items    map[string]*item
	bundles  map[string][]*item // that were pushed together
	inferred map[string]bool    // items whose push took place although it had no answer
	pops     []*Operation       // whose answers leave it open: each may have popped one item
	doubts   []span             // when leases without an answer may hide an item, both ends included
	looks    []*Operation       // pops, leases and peeks with an answer
	findings []Finding
}

// newJudge sorts a history by its items.
func newJudge(operations []Operation, bridges Bridges) *judge {
	j := &judge{bridges: bridges, items: make(map[string]*item), bundles: make(map[string][]*item)}
	operations, j.inferred = infer(operations)
	j.outages = outages(operations)
	for i := range operations {
		j.sort(&operations[i])
	}
	for _, it := range j.items {
		slices.SortStableFunc(it.deliveries, func(a, b *Operation) int {
			if a.Kind != b.Kind {
				return cmp.Compare(a.Kind, b.Kind) // lease before pop
			}
			return cmp.Or(cmp.Compare(a.Fence, b.Fence), cmp.Compare(a.Call, b.Call))
		})
	}
	j.sortKeys()
	return j
}

// span is a time from a moment to another.
type span struct{ from, to time.Duration }

func (j *judge) item(name string) *item {
	it := j.items[name]
	if it == nil {
		it = &item{}
		j.items[name] = it
	}
	return it
}

func (j *judge) sort(o *Operation) {
	switch {
	case o.Kind == Configure:
		j.terms = *o
	case o.Kind == Push:
		it := j.item(o.Item)
		if it.push = o; o.Bundle != "" {
			j.bundles[o.Bundle] = append(j.bundles[o.Bundle], it)
		}
	case o.Kind == Ack, o.Kind == Nak, o.Kind == Extend:
		it := j.item(o.Item)
		it.settlements = append(it.settlements, o)
	case o.Outcome == Unknown && o.Kind == Pop:
		j.pops = append(j.pops, o)
	case o.Outcome == Unknown && o.Kind == Lease:
		end := o.Return
		if end != Never && o.Lease > 0 {
			end = j.settledBy(end + o.Lease)
		}
		j.doubts = append(j.doubts, span{o.Call, end})
	case o.Outcome == Unknown: // a peek changes nothing
	default:
		j.looks = append(j.looks, o)
		if o.Outcome != Done {
			return
		}
		it := j.item(o.Item)
		if o.Kind == Peek {
			it.peeks = append(it.peeks, o)
		} else {
			it.deliveries = append(it.deliveries, o)
		}
	}
}

func (j *judge) find(rule Rule, operations ...*Operation) {
	f := Finding{Rule: rule}
	for _, o := range operations {
		f.Operations = append(f.Operations, *o)
	}
	j.findings = append(j.findings, f)
}

// Excerpt is the part of a history about which a finding is: all operations on its items.
func (f Finding) Excerpt(operations []Operation) []Operation {
	concerned := make(map[string]bool)
	for _, o := range f.Operations {
		if o.Item != "" {
			concerned[o.Item] = true
		}
	}
	var excerpt []Operation
	for _, o := range operations {
		if concerned[o.Item] || slices.Contains(f.Operations, o) {
			excerpt = append(excerpt, o)
		}
	}
	return excerpt
}

// Summary counts a history, for a log.
func Summary(operations []Operation) string {
	counts, bundles := make(map[string]int), make(map[string]bool)
	for _, o := range operations {
		counts[string(o.Kind)+" "+string(o.Outcome)]++
		if o.Bundle != "" && !bundles[o.Bundle] {
			bundles[o.Bundle] = true
			counts["bundles of "+string(o.Kind)]++
		}
	}
	var parts []string
	for name, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, name))
	}
	slices.Sort(parts)
	return strings.Join(parts, ", ")
}
