package fdbpq

import (
	"bytes"
	"fmt"
	"math"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/internal/layout"
	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// MaxContent bounds the bytes of headers and payload of one item, so that they
// fit into one transaction together with the item's other rows.
const MaxContent = layout.MaxContent

// storeContent writes an item's content: into the envelope when it is short for the engine,
// otherwise into rows that begin with prefix and the item's suffix.
func storeContent(t *transaction, prefix []byte, e *layout.Envelope, p layout.Place, headers, payload []byte) error {
	if err := checkContent(headers, payload); err != nil {
		return err
	}
	e.Size = int64(len(headers) + len(payload))
	e.HeaderSize = int64(len(headers))
	if !isApart(t, e.Size) {
		e.Headers, e.Payload = headers, payload
		return nil
	}
	content := append(append(make([]byte, 0, e.Size), headers...), payload...)
	for chunk := range slices.Chunk(content, layout.ChunkSize) {
		t.tx.Set(layout.AppendChunkKey(prefix, p, e.Chunks), chunk)
		e.Chunks++
	}
	return nil
}

// isApart reports whether content of some bytes has rows of its own.
func isApart(t *transaction, size int64) bool { return size > t.store.inline }

// checkContent returns an error when content is too large for an item.
func checkContent(headers, payload []byte) error {
	if size := len(headers) + len(payload); size > MaxContent {
		return fmt.Errorf("%w: payload and headers have %d bytes, allowed are %d", ErrContent, size, MaxContent)
	}
	return nil
}

// contents reads, writes and clears the content of items.
type contents struct{ *queueRows }

// write writes the content of an item: what the envelope does not keep has rows of its own.
func (c contents) write(e *layout.Envelope, p layout.Place, headers, payload []byte) error {
	var prefix []byte
	if isApart(c.transaction, int64(len(headers)+len(payload))) {
		prefix = c.prefix(layout.SpaceChunk)
	}
	return storeContent(c.transaction, prefix, e, p, headers, payload)
}

// changed clears the rows that write made for an item that does not have them any more.
func (c contents) changed(before, after *layout.Item) {
	for n := after.Chunks; n < before.Chunks; n++ {
		c.tx.Clear(layout.AppendChunkKey(c.prefix(layout.SpaceChunk), before.Place, n))
	}
}

// load reads content that write put into rows of its own.
func (c contents) load(l *layout.Item) error {
	if l.Chunks == 0 {
		return nil
	}
	return loadContent(c.snapshot, c.prefix(layout.SpaceChunk), &l.Envelope, l.Place)
}

// loadAll is load for many items, which an engine over a network reads at the same time.
func (c contents) loadAll(items []layout.Item) error {
	var keys [][]byte
	for i := range items {
		if l := &items[i]; l.Chunks > 0 {
			keys = appendChunkKeys(keys, c.prefix(layout.SpaceChunk), l.Place, l.Chunks)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	parts, err := c.snapshot.GetAll(keys)
	if err != nil {
		return err
	}
	for i := range items {
		l := &items[i]
		if l.Chunks == 0 {
			continue
		}
		if err := join(&l.Envelope, parts[:l.Chunks]); err != nil {
			return err
		}
		parts = parts[l.Chunks:]
	}
	return nil
}

// stored returns an item with the first bytes of its payload.
func (c contents) stored(r kv.Reader, l *layout.Item, payload int64) (*StoredItem, error) {
	f := *l
	prefix := c.prefix(layout.SpaceChunk)
	var err error
	if payload < l.Size-l.HeaderSize {
		err = loadBeginning(r, prefix, &f.Envelope, f.Place, payload)
	} else {
		err = loadContent(r, prefix, &f.Envelope, f.Place)
	}
	if err != nil {
		return nil, err
	}
	item, err := itemOf(&f)
	if err != nil {
		return nil, err
	}
	attempts := Attempts(l.Attempts)
	stored := &StoredItem{
		Item: item, State: State(l.State), Due: l.Due, Held: l.Held(), Dying: l.Dying(), Fence: l.Fence, KeyFence: l.KeyFence,
		Holder: l.Holder, Attempts: attempts, Cause: DeadLetter(l.Dead).cause(attempts),
	}
	if stored.Held || stored.Dying {
		stored.Due = 0
	}
	if l.State == layout.StateLeased && !stored.Held {
		stored.Since = l.Since
	}
	stored.Unique, stored.UniqueUntilLeased = claimOf(&l.Envelope)
	return stored, nil
}

// whole is more than the bytes of any payload.
const whole = math.MaxInt32

// loadContent reads content that is kept in chunks into the envelope.
func loadContent(r kv.Reader, prefix []byte, e *layout.Envelope, p layout.Place) error {
	if e.Chunks == 0 {
		return nil
	}
	parts, err := r.GetAll(appendChunkKeys(nil, prefix, p, e.Chunks))
	if err != nil {
		return err
	}
	return join(e, parts)
}

// join puts the content of an item's chunks into its envelope.
func join(e *layout.Envelope, parts [][]byte) error {
	content := joined(parts)
	if int64(len(content)) != e.Size || e.HeaderSize > e.Size {
		return fmt.Errorf("damaged item: its %d chunks have %d bytes instead of %d", e.Chunks, len(content), e.Size)
	}
	e.Headers, e.Payload = content[:e.HeaderSize:e.HeaderSize], content[e.HeaderSize:]
	return nil
}

// loadBeginning is loadContent with no more than the first bytes of the payload.
func loadBeginning(r kv.Reader, prefix []byte, e *layout.Envelope, p layout.Place, most int64) error {
	if e.Payload = e.Payload[:min(most, int64(len(e.Payload)))]; most == 0 {
		e.Payload = nil
	}
	need := min(e.HeaderSize+most, e.Size)
	if e.Chunks == 0 || need == 0 {
		return nil
	}
	parts, err := r.GetAll(appendChunkKeys(nil, prefix, p, min(e.Chunks, (need+layout.ChunkSize-1)/layout.ChunkSize)))
	if err != nil {
		return err
	}
	content := joined(parts)
	if int64(len(content)) < need || e.HeaderSize > need {
		return fmt.Errorf("damaged item: there are %d bytes of its first %d bytes", len(content), need)
	}
	e.Headers, e.Payload = content[:e.HeaderSize:e.HeaderSize], content[e.HeaderSize:need]
	if most == 0 {
		e.Payload = nil
	}
	return nil
}

// joined returns the content of chunks, of which there is one at least. Most items have one, which is not copied.
func joined(parts [][]byte) []byte {
	if len(parts) == 1 {
		return parts[0]
	}
	return bytes.Join(parts, nil)
}

// appendChunkKeys appends the keys of the first n chunks of an item.
func appendChunkKeys(keys [][]byte, prefix []byte, p layout.Place, n int64) [][]byte {
	for i := range n {
		keys = append(keys, layout.AppendChunkKey(prefix, p, i))
	}
	return keys
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
func itemTxSize(queue string, e *layout.Envelope, copied bool) int {
	keys := itemKeys
	content := int(e.Size)
	switch {
	case e.Chunks == 0:
		content += bytes.Count(e.Payload, zero) + bytes.Count(e.Headers, zero) // zero bytes are escaped
	case copied:
		keys += 6 * int(e.Chunks)
	default:
		keys += 3 * int(e.Chunks)
		content = 0
	}
	if e.Key != "" {
		content += keyRows * (len(queue) + keySize + len(e.Key))
	}
	return content + keys*(len(queue)+keySize) + e.Past.TxSize() + len(e.Later)
}

var zero = []byte{0}
