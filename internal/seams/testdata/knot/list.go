package knot

// List uses item.go, which uses queue.go, which does not use list.go. The interface's method is nobody's.
func List(o opener, of ...Item) int {
	names := len(of) // hides that of store.go
	o.Open()
	return names
}

// Len is a method of a type of another file, which has methods there, too.
func (q Queue) Len() int { return List(q.Store) }

// Lists has a method in the generated part of this file.
type Lists []int

// Len is a method, too.
func (l Lists) Len(q Queue) int { return len(lengths(q)) }
