package waiting

// list has pops in the order in which they were added. The elements are parts of the
// pops, so that any of them can be removed.
type list[T any] struct {
	first, last *element[T]
	size        int
}

type element[T any] struct {
	pop        *Pop[T] // nil: it is in no list
	prev, next *element[T]
}

func (l *list[T]) add(pop *Pop[T], e *element[T]) {
	*e = element[T]{pop: pop, prev: l.last}
	if l.last == nil {
		l.first = e
	} else {
		l.last.next = e
	}
	l.last = e
	l.size++
}

func (l *list[T]) drop(e *element[T]) {
	if e.prev == nil {
		l.first = e.next
	} else {
		e.prev.next = e.next
	}
	if e.next == nil {
		l.last = e.prev
	} else {
		e.next.prev = e.prev
	}
	*e = element[T]{}
	l.size--
}
