package waiting

import std "container/heap"

// heap has elements in an order, with the first one at index 0. Each element keeps its index, so that it can be
// moved and removed.
type heap[E any] struct {
	before func(a, b E) bool
	index  func(E) *int
	all    []E
}

func (h *heap[E]) first() E   { return h.all[0] }
func (h *heap[E]) size() int  { return len(h.all) }
func (h *heap[E]) push(e E)   { std.Push((*ordered[E])(h), e) }
func (h *heap[E]) fix(e E)    { std.Fix((*ordered[E])(h), *h.index(e)) }
func (h *heap[E]) remove(e E) { std.Remove((*ordered[E])(h), *h.index(e)) }

// ordered is a heap in the form that the standard library needs.
type ordered[E any] heap[E]

func (o *ordered[E]) Len() int           { return len(o.all) }
func (o *ordered[E]) Less(i, j int) bool { return o.before(o.all[i], o.all[j]) }

func (o *ordered[E]) Swap(i, j int) {
	o.all[i], o.all[j] = o.all[j], o.all[i]
	*o.index(o.all[i]), *o.index(o.all[j]) = i, j
}

func (o *ordered[E]) Push(x any) {
	e := x.(E)
	*o.index(e) = len(o.all)
	o.all = append(o.all, e)
}

func (o *ordered[E]) Pop() any {
	last := len(o.all) - 1
	e := o.all[last]
	var none E
	o.all[last] = none
	o.all = o.all[:last]
	return e
}
