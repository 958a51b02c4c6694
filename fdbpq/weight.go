package fdbpq

import "bytes"

// A transaction has at most kv.MaxTxSize bytes. What works on many items adds
// up what they weigh and ends before it becomes too heavy; one item always fits.
const (
	maxWeight = 9_200_000

	// An item has so many keys in a transaction, counted as often as an engine
	// may count one: for a write, for what the write conflicts with, for what it
	// depends on.
	itemKeys = 20
	keySize  = 48 // of a key, the queue's name aside
)

// weight is what taking, releasing or burying an item adds to a transaction.
// Content in chunks stays where it is unless the item is copied.
func (q Queue) weight(e *envelope, copied bool) int {
	keys := itemKeys
	content := int(e.size)
	switch {
	case e.chunks == 0:
		content += bytes.Count(e.payload, zero) + bytes.Count(e.headers, zero) // which are escaped
	case copied:
		keys += 6 * int(e.chunks)
	default:
		keys += 3 * int(e.chunks)
		content = 0
	}
	return content + keys*(len(q.name)+keySize)
}

var zero = []byte{0}
