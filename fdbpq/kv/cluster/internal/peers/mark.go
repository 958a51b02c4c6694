package peers

// Mark is the furthest entry that any member of a store was heard to have. It never goes back within a generation,
// even if that member has lost the entry: the entry did exist. It is on the disk, so it outlives a start of all
// members.
type Mark struct {
	Store      string `json:"store"`
	Generation uint64 `json:"generation"`
	Entry      uint64 `json:"entry"`
	Member     string `json:"member"` // that had it
}

// Follows reports whether a mark is further than another one.
func (m Mark) Follows(o Mark) bool {
	return m.Generation > o.Generation || m.Generation == o.Generation && m.Entry > o.Entry
}
