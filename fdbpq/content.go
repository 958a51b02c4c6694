package fdbpq

import (
	"bytes"
	"fmt"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// storeContent writes an item's content: into the envelope when it is small,
// otherwise into rows that begin with prefix and the item's tail.
func storeContent(tx kv.Tx, prefix []byte, e *envelope, p place, headers, payload []byte) error {
	if err := checkContent(headers, payload); err != nil {
		return err
	}
	e.size = int64(len(headers) + len(payload))
	e.headerSize = int64(len(headers))
	if e.size <= maxInline {
		e.headers, e.payload = headers, payload
		return nil
	}
	content := append(append(make([]byte, 0, e.size), headers...), payload...)
	for len(content) > 0 {
		n := min(chunkSize, len(content))
		tx.Set(appendChunkKey(prefix, p, e.chunks), content[:n])
		content = content[n:]
		e.chunks++
	}
	return nil
}

// checkContent returns an error when content is too large for an item.
func checkContent(headers, payload []byte) error {
	if size := len(headers) + len(payload); size > MaxContent {
		return fmt.Errorf("%w: payload and headers have %d bytes, allowed are %d", ErrContent, size, MaxContent)
	}
	return nil
}

// contents is what a queue does about the content of items.
type contents struct{ *queueTx }

// write writes the content of an item: what the envelope does not keep has rows of its own.
func (c contents) write(e *envelope, p place, headers, payload []byte) error {
	if int64(len(headers)+len(payload)) <= maxInline {
		return storeContent(c.tx, nil, e, p, headers, payload)
	}
	return storeContent(c.tx, c.prefix(spaceChunk), e, p, headers, payload)
}

// changed clears the rows that write made for an item that does not have them any more.
func (c contents) changed(before, after *located) {
	for n := after.chunks; n < before.chunks; n++ {
		c.tx.Clear(appendChunkKey(c.prefix(spaceChunk), before.place, n))
	}
}

// load reads content that write put into rows of its own.
func (c contents) load(e *envelope, p place) error {
	if e.chunks == 0 {
		return nil
	}
	return loadContent(c.snapshot, c.prefix(spaceChunk), e, p)
}

// loadContent reads content that is kept in chunks into the envelope.
func loadContent(r kv.Reader, prefix []byte, e *envelope, p place) error {
	if e.chunks == 0 {
		return nil
	}
	content, err := readChunks(r, prefix, p, e.chunks)
	if err != nil {
		return err
	}
	if int64(len(content)) != e.size || e.headerSize > e.size {
		return fmt.Errorf("damaged item: its %d chunks have %d bytes instead of %d", e.chunks, len(content), e.size)
	}
	e.headers, e.payload = content[:e.headerSize:e.headerSize], content[e.headerSize:]
	return nil
}

// loadBeginning is loadContent with no more than the first bytes of the payload.
func loadBeginning(r kv.Reader, prefix []byte, e *envelope, p place, most int64) error {
	if e.payload = e.payload[:min(most, int64(len(e.payload)))]; most == 0 {
		e.payload = nil
	}
	need := min(e.headerSize+most, e.size)
	if e.chunks == 0 || need == 0 {
		return nil
	}
	content, err := readChunks(r, prefix, p, min(e.chunks, (need+chunkSize-1)/chunkSize))
	if err != nil {
		return err
	}
	if int64(len(content)) < need || e.headerSize > need {
		return fmt.Errorf("damaged item: there are %d bytes of its first %d bytes", len(content), need)
	}
	e.headers, e.payload = content[:e.headerSize:e.headerSize], content[e.headerSize:need]
	if most == 0 {
		e.payload = nil
	}
	return nil
}

// readChunks returns the content of the first n chunks.
func readChunks(r kv.Reader, prefix []byte, p place, n int64) ([]byte, error) {
	keys := make([][]byte, n)
	for i := range keys {
		keys[i] = appendChunkKey(prefix, p, int64(i))
	}
	parts, err := r.GetAll(keys)
	if err != nil {
		return nil, err
	}
	return bytes.Join(parts, nil), nil
}

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
	return content + keys*(len(queue)+keySize) + e.past.txSize()
}

var zero = []byte{0}
