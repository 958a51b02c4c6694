package knot

// Queue uses a type of store.go, and a function of item.go, which uses Queue.
type Queue struct{ Store *Store }

// Pop uses a method of store.go.
func (q Queue) Pop() *Item {
	q.Store.Open()
	return newItem(q)
}
