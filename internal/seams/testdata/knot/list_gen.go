package knot

// lengths is a part of list.go, which uses it.
func lengths(q Queue) []int { return []int{List(q.Store), q.Len()} }

// Longest is a method of a type of list.go.
func (l Lists) Longest() int { return len(l) }
