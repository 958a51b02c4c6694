package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// A transaction has at most kv.MaxTxSize bytes. Operations on many items add up what
// each adds to the transaction, and stop at txSizeBudget; one item always fits.
const (
	txSizeBudget = 9_200_000

	// itemKeys is the number of keys that an item adds to a transaction. Engines may
	// count a key several times: for the write, its write conflict and its read
	// conflict.
	itemKeys = 20
	keyRows  = 24 // of an item with a key, in addition
	keySize  = 48 // of a key, without the queue's name

	attemptCopies = 2 // of an item's attempts: zero bytes are escaped
)

// itemTxSize is what an operation on an item adds to a transaction. Content in chunks
// counts only when the item is copied; its keys always count, since it may be dropped.
func itemTxSize(queue string, e *envelope, copied bool) int {
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
	if e.key != "" {
		content += keyRows * (len(queue) + keySize + len(e.key))
	}
	return content + keys*(len(queue)+keySize) + len(e.holder) + attemptCopies*len(e.attempts)
}

var zero = []byte{0}

// CheckPushSize returns an error that wraps kv.ErrTooLarge if one transaction may have no
// room for a push of all the items. One item always has room.
func CheckPushSize(queue string, items []NewItem) error {
	size := 0
	for i := range items {
		size += items[i].txSize(queue)
	}
	if len(items) > 1 && size > txSizeBudget {
		return fmt.Errorf("%w: %d items may take %d bytes of a transaction, with their keys: allowed are %d, so push fewer of them at a time",
			kv.ErrTooLarge, len(items), size, txSizeBudget)
	}
	return nil
}

// txSize bounds what the push of an item adds to a transaction, keys of ids and of unique
// values included.
func (item *NewItem) txSize(queue string) int {
	content := len(item.Payload) + len(item.Headers)
	keys := itemKeys
	if content <= maxInline {
		content += bytes.Count(item.Payload, zero) + bytes.Count(item.Headers, zero) // zero bytes are escaped
	} else {
		keys += 3 * (content/chunkSize + 1)
	}
	return content + keys*(len(queue)+keySize) + itemKeys*len(item.MsgID) + itemKeys*len(item.Unique)
}
