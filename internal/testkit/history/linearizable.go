package history

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Linearizable reports whether there is an order of the operations in which a sequential
// queue gives the same answers. An operation that was answered before the call of
// another one precedes it in that order. Leases do not expire in that queue. After
// limit, Linearizable returns an error.
func Linearizable(operations []Operation, limit time.Duration) (bool, error) {
	operations, _ = infer(operations)
	switch porcupine.CheckOperationsTimeout(model(operations), events(operations), limit) {
	case porcupine.Ok:
		return true, nil
	case porcupine.Illegal:
		return false, nil
	}
	return false, fmt.Errorf("no verdict on %d operations within %s", len(operations), limit)
}

// Draw writes a page to a file that shows the operations on a line of time, and
// how far an order of them explains the answers.
func Draw(name string, operations []Operation, limit time.Duration) error {
	operations, _ = infer(operations)
	sequential := model(operations)
	_, info := porcupine.CheckOperationsVerbose(sequential, events(operations), limit)
	return porcupine.VisualizePath(sequential, info, name)
}

func events(operations []Operation) []porcupine.Operation {
	var all []porcupine.Operation
	for _, moment := range moments(operations) {
		o := moment[0]
		all = append(all, porcupine.Operation{
			ClientId: o.Client, Input: moment, Output: o.Outcome, Call: int64(o.Call), Return: int64(o.Return),
		})
	}
	return all
}

// entry is an item of the sequential queue.
type entry struct {
	name     string
	priority int64
	key      string
	fence    int64
	leased   bool
}

// queue is the items in the order of pop.min. It is never changed in place.
type queue []entry

// model is the sequential queue, for the search in this history.
func model(operations []Operation) porcupine.Model {
	j := newJudge(operations, One)
	known := j.places()
	sequential := porcupine.NondeterministicModel{
		Init: func() []any { return []any{queue(nil)} },
		Step: func(state, input, _ any) []any {
			var next []any
			for _, q := range state.(queue).at(input.([]Operation), known, &j.terms) {
				next = append(next, q)
			}
			return next
		},
		Equal:             func(a, b any) bool { return slices.Equal(a.(queue), b.(queue)) },
		DescribeOperation: describeOperation,
		DescribeState:     describeState,
	}
	return sequential.ToModel()
}

func describeOperation(input, _ any) string {
	var all []string
	for _, o := range input.([]Operation) {
		_, text, _ := strings.Cut(o.String(), ": ")
		text, _, _ = strings.Cut(text, " [")
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func describeState(state any) string {
	var items []string
	for _, e := range state.(queue) {
		text := fmt.Sprintf("%s/%d", e.name, e.priority)
		if e.leased {
			text += fmt.Sprintf(" leased %d", e.fence)
		}
		items = append(items, text)
	}
	return strings.Join(items, ", ")
}

// pair is two items of one priority, in the order in which they were pushed.
type pair struct{ first, second string }

// places finds out which of two items was pushed first, from pops that took one while the other was certainly
// ready. Without it the search would try all orders of overlapping pushes, and notice a wrong order only at the end
// of the history.
func (j *judge) places() map[pair]bool {
	known, byPriority := make(map[pair]bool), make(map[int64][]ready)
	for _, it := range j.items {
		if it.push != nil {
			byPriority[it.push.Priority] = append(byPriority[it.push.Priority], j.readiness(it)...)
		}
	}
	for _, look := range j.looks {
		if look.Outcome != Done {
			continue
		}
		for _, r := range byPriority[look.Priority] {
			other := r.item.push.Item
			switch {
			case other == look.Item || look.Call <= r.from || look.Return >= r.to:
			case !j.comparable(look, r.item):
			case look.End == Min:
				known[pair{look.Item, other}] = true
			default:
				known[pair{other, look.Item}] = true
			}
		}
	}
	return known
}

// comparable reports whether look would have got the other item, or an item of its key in front of it, if the other
// item had been pushed first.
func (j *judge) comparable(look *Operation, other *item) bool {
	switch key := other.push.Key; {
	case key == "" || j.terms.limit() == 0:
		return true
	case key != look.Key:
		return j.keys[key].held.overlap(span{look.Call, look.Return}) < j.terms.limit()
	}
	return !j.terms.KeyOrder || j.items[look.Item].mayHaveBegun() >= look.Call
}

// anyBehind reports whether the queue has an item that was pushed after this one.
func (q queue) anyBehind(item string, known map[pair]bool) bool {
	return slices.ContainsFunc(q, func(e entry) bool { return known[pair{item, e.name}] })
}

// after returns the queues that the operation, with its answer, may leave behind: none if no queue answers so.
func (q queue) after(o Operation, terms *Operation) []queue {
	at := slices.IndexFunc(q, func(e entry) bool { return e.name == o.Item })
	switch o.Kind {
	case Configure:
		return []queue{q}
	case Push:
		behind := slices.IndexFunc(q, func(e entry) bool { return e.priority > o.Priority })
		if behind < 0 {
			behind = len(q)
		}
		next := slices.Insert(slices.Clone(q), behind, entry{name: o.Item, priority: o.Priority, key: o.Key})
		if o.Outcome == Unknown {
			return []queue{q, next}
		}
		return []queue{next}
	case Pop, Lease, Peek:
		return q.look(o, terms)
	}
	holds := at >= 0 && q[at].leased && q[at].fence == o.Fence
	var results []queue
	if holds && (o.Outcome != Nothing || o.Repeated) {
		results = append(results, q.settle(o.Kind, at))
	}
	if o.Outcome == Unknown || o.Outcome == Nothing && !holds || o.Repeated {
		results = append(results, q)
	}
	return results
}

func (q queue) settle(kind Kind, at int) queue {
	switch next := slices.Clone(q); kind {
	case Ack:
		return slices.Delete(next, at, at+1)
	case Nak:
		next[at].leased = false
		return next
	}
	return q
}

// look pops, leases or peeks.
func (q queue) look(o Operation, terms *Operation) []queue {
	head := slices.IndexFunc(q, func(e entry) bool { return q.free(e, terms) })
	if o.End == Max {
		head = -1
		for i, e := range q {
			if q.free(e, terms) {
				head = i
			}
		}
	}
	switch {
	case o.Outcome == Nothing && head >= 0, o.Outcome == Done && (head < 0 || q[head].name != o.Item):
		return nil
	case o.Reason != "" && (o.Reason == blocked) != slices.ContainsFunc(q, entry.ready):
		return nil
	case o.Outcome == Nothing, o.Kind == Peek, head < 0:
		return []queue{q}
	}
	var results []queue
	if o.Outcome == Unknown {
		results = append(results, q)
	}
	next := slices.Clone(q)
	switch {
	case o.Kind == Pop:
		next = slices.Delete(next, head, head+1)
	case o.Outcome == Done && o.Fence <= next[head].fence:
		return nil
	default:
		next[head].leased, next[head].fence = true, max(o.Fence, next[head].fence+1)
	}
	return append(results, next)
}

func (e entry) ready() bool { return !e.leased }

// free reports whether the item may be handed out: it is ready, and need not wait for
// others of its key.
func (q queue) free(e entry, terms *Operation) bool {
	if e.leased || e.key == "" {
		return !e.leased
	}
	leased := 0
	for _, other := range q {
		switch {
		case other.key != e.key || other.name == e.name:
		case terms.KeyOrder && other.fence > 0 && e.fence == 0:
			return false // the item that was leased before comes first
		case other.leased:
			leased++
		}
	}
	return terms.limit() == 0 || leased < terms.limit()
}
