package local

import (
	"bytes"
	"hash/maphash"
	"slices"
)

// seed makes the hashes of this process unpredictable for clients that choose keys.
var seed = maphash.MakeSeed()

func hashKey(key []byte) uint64 { return maphash.Bytes(seed, key) }

// encodeKey returns the form of a key in the store and behind the methods of a
// transaction. Pebble does not support an empty key, which breaks its order and its range
// tombstones. Encoding changes only keys that are empty or begin with a zero byte, and
// keeps the order of keys.
func encodeKey(key []byte) []byte {
	if len(key) > 0 && key[0] != 0 {
		return key
	}
	return append(make([]byte, 1, len(key)+1), key...)
}

// decodeKey reverses encodeKey.
func decodeKey(key []byte) []byte {
	if key[0] != 0 {
		return key
	}
	return key[1:]
}

// keySet is a set of keys in the order in which they were added. They share one arena,
// so a set of any size needs few allocations, and none when it is reused.
type keySet struct {
	arena   []byte
	entries []keyEntry
	slots   []int32 // open addressing; index+1 of an entry, 0 for free; a power of two long
}

type keyEntry struct {
	hash     uint64
	off, len uint32
}

func (s *keySet) len() int { return len(s.entries) }

func (s *keySet) key(i int32) []byte {
	e := s.entries[i]
	return s.arena[e.off : e.off+e.len : e.off+e.len]
}

// find returns the index of key, or -1.
func (s *keySet) find(hash uint64, key []byte) int32 {
	if len(s.slots) == 0 {
		return -1
	}
	mask := uint64(len(s.slots) - 1)
	for at := hash & mask; ; at = (at + 1) & mask {
		i := s.slots[at] - 1
		if i < 0 {
			return -1
		}
		if s.entries[i].hash == hash && bytes.Equal(s.key(i), key) {
			return i
		}
	}
}

// add returns the index of key, and whether it is new.
func (s *keySet) add(hash uint64, key []byte) (int32, bool) {
	if i := s.find(hash, key); i >= 0 {
		return i, false
	}
	if 2*len(s.entries) >= len(s.slots) {
		s.grow()
	}
	i := int32(len(s.entries))
	s.entries = extend(s.entries, keyEntry{hash: hash, off: uint32(len(s.arena)), len: uint32(len(key))})
	s.arena = extend(s.arena, key...)
	s.place(hash, i)
	return i, true
}

func (s *keySet) place(hash uint64, i int32) {
	mask := uint64(len(s.slots) - 1)
	at := hash & mask
	for s.slots[at] != 0 {
		at = (at + 1) & mask
	}
	s.slots[at] = i + 1
}

func (s *keySet) grow() {
	s.slots = make([]int32, max(64, 2*len(s.slots)))
	for i, e := range s.entries {
		s.place(e.hash, int32(i))
	}
}

// reset empties the set and keeps its memory, unless it is large.
func (s *keySet) reset() {
	if cap(s.arena) > maxKept || len(s.entries) > maxKeptKeys {
		*s = keySet{}
		return
	}
	s.arena = s.arena[:0]
	s.entries = s.entries[:0]
	clear(s.slots)
}

// The most memory that a buffer keeps for reuse. Clearing a large table for every small
// transaction would take longer than the transaction.
const (
	maxKept     = 1 << 20 // bytes
	maxKeptKeys = 1 << 11
)

// extend is append for arenas, which double when they are full: append adds a quarter to a large slice, and so
// allocates, and copies, five times what it holds in the end.
func extend[E any](arena []E, more ...E) []E {
	if len(arena)+len(more) > cap(arena) {
		arena = slices.Grow(arena, max(len(more), cap(arena)))
	}
	return append(arena, more...)
}

// keyRange is the keys from begin up to, but without, end.
type keyRange struct {
	begin, end []byte
}

func (r keyRange) contains(key []byte) bool {
	return bytes.Compare(key, r.begin) >= 0 && bytes.Compare(key, r.end) < 0
}

func (r keyRange) overlaps(o keyRange) bool {
	return bytes.Compare(r.begin, o.end) < 0 && bytes.Compare(o.begin, r.end) < 0
}

// keyAfter returns the smallest key greater than key, in memory of its own.
func keyAfter(key []byte) []byte {
	next := make([]byte, len(key)+1)
	copy(next, key)
	return next
}

// rangeSet is a set of keys kept as sorted ranges that neither overlap nor
// touch.
type rangeSet []keyRange

// add puts all keys of r into the set, which keeps r's slices.
func (s *rangeSet) add(r keyRange) {
	first := s.search(r.begin)
	if first > 0 && bytes.Equal((*s)[first-1].end, r.begin) {
		first--
	}
	last := first
	for last < len(*s) && bytes.Compare((*s)[last].begin, r.end) <= 0 {
		if bytes.Compare((*s)[last].begin, r.begin) < 0 {
			r.begin = (*s)[last].begin
		}
		if bytes.Compare((*s)[last].end, r.end) > 0 {
			r.end = (*s)[last].end
		}
		last++
	}
	*s = slices.Replace(*s, first, last, r)
}

// search returns the index of the first range that ends after key.
func (s rangeSet) search(key []byte) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); bytes.Compare(s[mid].end, key) > 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

func (s rangeSet) contains(key []byte) bool {
	i := s.search(key)
	return i < len(s) && bytes.Compare(s[i].begin, key) <= 0
}

// overlap reports whether a key of the set is in r, too.
func (s rangeSet) overlap(r keyRange) bool {
	i := s.search(r.begin)
	return i < len(s) && bytes.Compare(s[i].begin, r.end) < 0
}

// packedKeys is a sorted list of keys in two slices without pointers, so that the
// garbage collector need not scan long lists.
type packedKeys struct {
	data []byte
	ends []uint32
}

func (p packedKeys) len() int { return len(p.ends) }

func (p packedKeys) key(i int) []byte {
	begin := uint32(0)
	if i > 0 {
		begin = p.ends[i-1]
	}
	return p.data[begin:p.ends[i]]
}

// search returns the index of the first key that is not less than key.
func (p packedKeys) search(key []byte) int {
	lo, hi := 0, len(p.ends)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); bytes.Compare(p.key(mid), key) >= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo
}

// searchEnd returns the index of the last range that begins before key, or -1.
func (s rangeSet) searchEnd(key []byte) int {
	lo, hi := 0, len(s)
	for lo < hi {
		if mid := int(uint(lo+hi) >> 1); bytes.Compare(s[mid].begin, key) >= 0 {
			hi = mid
		} else {
			lo = mid + 1
		}
	}
	return lo - 1
}
