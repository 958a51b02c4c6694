package layout

// freeOverhead is how many bytes of unique value, key, attempts and death an item has at no cost.
const freeOverhead = 512

// rowsOfKey is how many rows of an item have its key.
const rowsOfKey = 4

// MaxOverhead is more than the overhead of any item.
const MaxOverhead = 16 << 10

// WithOverhead has the envelope say what its texts take in the item's rows, and returns that. What ordinary items have
// costs nothing, so that they need no counter.
func (e *Envelope) WithOverhead() int64 {
	n := 2*len(e.Unique) + rowsOfKey*len(e.Key) + len(e.Attempts) + len(e.Dead.Reason) + len(e.Dead.Origin) + len(e.Dead.OriginID)
	e.Overhead = int64(max(0, n-freeOverhead))
	return e.Overhead
}
