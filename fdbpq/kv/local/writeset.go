package local

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// writeSet has a transaction's writes: the cleared ranges, and on top of them at most one
// entry for each key, which determines the key's new value.
type writeSet struct {
	keys    keySet
	entries []write // of the keys, by their index
	values  []byte  // arena of the entries' values
	live    int     // bytes of values in use
	atomics []atomic64
	cleared rangeSet
	bounds  int     // bytes of the bounds of ClearRange calls
	sorted  []int32 // keys in order, without those added since the last sort
	setting []int32 // the keys of sorted that will have a value
	erasing []int32 // the keys of sorted that will have none
	narrow  readSet // cleared ranges that were replaced by their keys
	refused error   // why the commit must fail
}

type write struct {
	kind        writeKind
	off, len    uint32 // of the value set
	first, last int32  // of the atomic operations
}

type writeKind uint8

const (
	kindSet    writeKind = iota
	kindClear            // the key has no value
	kindAtomic           // operations on the store's value
)

// atomic64 is an Add or a Max and the link to the next one on the same key.
type atomic64 struct {
	max     bool
	operand uint64
	next    int32
}

func (a atomic64) apply(v uint64) uint64 {
	if a.max {
		return max(v, a.operand)
	}
	return v + a.operand
}

func (w *writeSet) empty() bool { return w.keys.len() == 0 && len(w.cleared) == 0 }

func (w *writeSet) size() int { return len(w.keys.arena) + w.live + w.bounds }

// refuse makes the commit fail, with the first reason given.
func (w *writeSet) refuse(format string, args ...any) {
	if w.refused == nil {
		w.refused = fmt.Errorf("%w: "+format, append([]any{kv.ErrTooLarge}, args...)...)
	}
}

// accepts checks the size of a key and reports whether to perform the write. Writes beyond a limit are performed,
// so that the closure sees its own writes until the commit fails. Only in a transaction far beyond all limits they
// are not.
func (w *writeSet) accepts(key []byte) bool {
	if len(key) > kv.MaxKeySize {
		w.refuse("key has %d bytes, at most %d are allowed", len(key), kv.MaxKeySize)
	}
	return len(w.keys.arena)+len(w.values) < 32*kv.MaxTxSize
}

func (w *writeSet) set(key, value []byte) {
	if !w.accepts(key) {
		return
	}
	if len(value) > kv.MaxValueSize {
		w.refuse("value has %d bytes, at most %d are allowed", len(value), kv.MaxValueSize)
	}
	e, _ := w.entry(encodeKey(key))
	w.put(e, value)
}

// put makes value the new value of e, in the memory of the old one if it fits.
func (w *writeSet) put(e *write, value []byte) {
	w.live -= int(e.len)
	if e.kind != kindSet || len(value) > int(e.len) {
		w.compact()
		e.off = uint32(len(w.values))
		w.values = extend(w.values, value...)
	} else {
		copy(w.values[e.off:], value)
	}
	e.kind = kindSet
	e.len = uint32(len(value))
	w.live += len(value)
}

// compact drops overwritten values once they are most of the arena.
func (w *writeSet) compact() {
	if len(w.values) < 2*w.live+maxKept {
		return
	}
	values := make([]byte, 0, 2*w.live)
	for i := range w.entries {
		if e := &w.entries[i]; e.len > 0 {
			v := w.values[e.off : e.off+e.len]
			e.off = uint32(len(values))
			values = append(values, v...)
		}
	}
	w.values = values
}

func (w *writeSet) clear(key []byte) {
	if !w.accepts(key) {
		return
	}
	e, _ := w.entry(encodeKey(key))
	w.erase(e)
}

func (w *writeSet) erase(e *write) {
	w.live -= int(e.len)
	*e = write{kind: kindClear}
}

// clearRange copies the bounds.
func (w *writeSet) clearRange(begin, end []byte) {
	if bytes.Compare(begin, end) >= 0 || !w.accepts(nil) {
		return
	}
	w.bounds += len(begin) + len(end)
	r := keyRange{bytes.Clone(encodeKey(begin)), bytes.Clone(encodeKey(end))}
	for i := w.search(r.begin); i < len(w.sorted) && bytes.Compare(w.keys.key(w.sorted[i]), r.end) < 0; i++ {
		w.erase(&w.entries[w.sorted[i]])
	}
	w.cleared.add(r)
}

func (w *writeSet) atomic(key []byte, op atomic64) {
	if !w.accepts(key) {
		return
	}
	key = encodeKey(key)
	e, isNew := w.entry(key)
	if isNew {
		*e = write{kind: kindAtomic, first: -1}
		if w.cleared.contains(key) {
			e.kind = kindClear
		}
	}
	switch e.kind {
	case kindSet:
		w.putInteger(e, op.apply(kv.DecodeInteger(w.value(e))))
	case kindClear:
		w.putInteger(e, op.apply(0))
	case kindAtomic:
		w.chain(e, op)
	}
}

// putInteger makes v the value of e.
func (w *writeSet) putInteger(e *write, v uint64) {
	var buf [8]byte
	binary.LittleEndian.PutUint64(buf[:], v)
	w.put(e, buf[:])
}

// chain appends op to the operations of e, merged with the last one of the same kind.
func (w *writeSet) chain(e *write, op atomic64) {
	op.next = -1
	if e.first >= 0 {
		last := &w.atomics[e.last]
		if last.max == op.max {
			if op.max {
				last.operand = max(last.operand, op.operand)
			} else {
				last.operand += op.operand
			}
			return
		}
		last.next = int32(len(w.atomics))
	} else {
		e.first = int32(len(w.atomics))
	}
	e.last = int32(len(w.atomics))
	w.atomics = extend(w.atomics, op)
}

// evaluate applies the operations of e to the store's value.
func (w *writeSet) evaluate(e *write, v uint64) uint64 {
	for i := e.first; i >= 0; i = w.atomics[i].next {
		v = w.atomics[i].apply(v)
	}
	return v
}

func (w *writeSet) value(e *write) []byte { return w.values[e.off : e.off+e.len] }

// entry returns the entry of key, and whether it is new: then it is zero.
func (w *writeSet) entry(key []byte) (*write, bool) {
	i, isNew := w.keys.add(hashKey(key), key)
	if isNew {
		w.entries = extend(w.entries, write{})
	}
	return &w.entries[i], isNew
}

// find returns the entry of key or nil.
func (w *writeSet) find(hash uint64, key []byte) *write {
	if i := w.keys.find(hash, key); i >= 0 {
		return &w.entries[i]
	}
	return nil
}

// search returns the index in sorted of the first key not less than key.
func (w *writeSet) search(key []byte) int {
	w.sort()
	return w.searchIn(w.sorted, key)
}

func (w *writeSet) searchIn(sorted []int32, key []byte) int {
	lo, hi := 0, len(sorted)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); bytes.Compare(w.keys.key(sorted[mid]), key) >= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// sort updates sorted. It is called often, so it must be cheap when few keys were added:
// it inserts a few keys one by one, and sorts and merges many.
func (w *writeSet) sort() {
	const few = 4
	old, all := len(w.sorted), w.keys.len()
	if all-old <= few {
		for i := old; i < all; i++ {
			at := w.searchIn(w.sorted, w.keys.key(int32(i)))
			w.sorted = slices.Insert(w.sorted, at, int32(i))
		}
		return
	}
	for i := old; i < all; i++ {
		w.sorted = append(w.sorted, int32(i))
	}
	compare := func(a, b int32) int { return bytes.Compare(w.keys.key(a), w.keys.key(b)) }
	slices.SortFunc(w.sorted[old:], compare)
	if old == 0 || compare(w.sorted[old-1], w.sorted[old]) < 0 {
		return
	}
	head := slices.Clone(w.sorted[:old])
	tail := slices.Clone(w.sorted[old:])
	for at := range w.sorted {
		if len(tail) == 0 || len(head) > 0 && compare(head[0], tail[0]) < 0 {
			w.sorted[at], head = head[0], head[1:]
		} else {
			w.sorted[at], tail = tail[0], tail[1:]
		}
	}
}

// outcome returns the keys that will have a value after the commit, and the keys that
// will have none.
func (w *writeSet) outcome() (set, cleared keyList) {
	w.setting, w.erasing = w.setting[:0], w.erasing[:0]
	for _, i := range w.sorted {
		if w.entries[i].kind != kindClear {
			w.setting = append(w.setting, i)
		} else {
			w.erasing = append(w.erasing, i)
		}
	}
	return keyList{&w.keys, w.setting}, keyList{&w.keys, w.erasing}
}

// clearEncoded clears an encoded key, unless the transaction has written it.
func (w *writeSet) clearEncoded(key []byte) {
	if e, isNew := w.entry(key); isNew {
		w.erase(e)
	}
}

// narrowRange removes a cleared range whose keys are cleared one by one. The effect is the same as long as no other
// commit sets a key in the range.
func (w *writeSet) narrowRange(r keyRange) {
	w.cleared = slices.DeleteFunc(w.cleared, func(o keyRange) bool { return bytes.Equal(o.begin, r.begin) })
	w.narrow.addRange(r.begin, r.end)
}

// widenRanges undoes narrowRange.
func (w *writeSet) widenRanges() {
	for _, r := range w.narrow.ranges {
		w.cleared.add(r)
	}
	w.narrow.reset()
}

func (w *writeSet) reset() {
	if w.keys.len() > maxKeptKeys || cap(w.values) > maxKept {
		*w = writeSet{}
		return
	}
	w.keys.reset()
	w.entries = w.entries[:0]
	w.values = w.values[:0]
	w.live = 0
	w.atomics = w.atomics[:0]
	clear(w.cleared)
	w.cleared = w.cleared[:0]
	w.bounds = 0
	w.sorted = w.sorted[:0]
	w.narrow.reset()
	w.refused = nil
}
