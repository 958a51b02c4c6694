package claims

// Claim is a disk's announcement of its state. A life begins when the member has caught up with an active member
// after a start: its disk then has all entries, whatever state it had before.
type Claim struct {
	Life  uint64 `json:"life"`  // number of the life; 0: the disk had none
	ID    string `json:"id"`    // of the life, random
	Count uint64 `json:"count"` // of claims within the life
	Entry uint64 `json:"entry"` // in the copy, for people

	// Lives says that this process began the life. Otherwise an earlier process did, and the disk may have gone
	// back since.
	Lives bool `json:"lives,omitempty"`

	// Witnesses are the members whose disks had this life's claim when another member was last heard. Entries may
	// follow that the others do not know.
	Witnesses []string `json:"witnesses,omitempty"`
}

// contradicts reports whether a disk that made the claim c cannot make the claim now.
func (c Claim) contradicts(now Claim) bool {
	switch {
	case now.Lives && now.ID != c.ID:
		return false
	case now.Life != c.Life:
		return now.Life < c.Life
	}
	return now.ID != c.ID || now.Count < c.Count
}
