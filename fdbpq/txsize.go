package fdbpq

import "bytes"

// A transaction has at most kv.MaxTxSize bytes. Operations on many items add up what
// each adds to the transaction, and stop at txSizeBudget; one item always fits.
const (
	txSizeBudget = 9_200_000

	// itemKeys is the number of keys that an item adds to a transaction. Engines may
	// count a key several times: for the write, its write conflict and its read
	// conflict.
	itemKeys = 20
	keySize  = 48 // of a key, without the queue's name
)

// itemTxSize is what an operation on an item adds to a transaction. Content in chunks
// counts only when the item is copied; its keys always count, since it may be dropped.
func (q Queue) itemTxSize(e *envelope, copied bool) int {
	keys := itemKeys
	content := int(e.size)
	switch {
	case e.chunks == 0:
		content += bytes.Count(e.payload, zero) + bytes.Count(e.headers, zero) // zero bytes are escaped
	case copied:
		keys += 6 * int(e.chunks)
	default:
		keys += 3 * int(e.chunks)
		content = 0
	}
	return content + keys*(len(q.name)+keySize)
}

var zero = []byte{0}
