package knot

// Item uses nothing by its field alone.
type Item struct {
	opened bool
	names  int
}

func newItem(q Queue) *Item {
	item := Item{names: len(names), opened: q.Store.open}
	return &item
}
