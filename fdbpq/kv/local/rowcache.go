package local

import (
	"bytes"
	"sync"
)

// rowCache caches rows that many transactions read, such as the state of a queue: a lookup in the store takes a
// large part of the time of a small transaction. Each row has one slot, which it shares with other rows. A commit
// that sets a cached row puts its new value there, because many rows, such as the highest count of a queue, are
// written as often as they are read.
type rowCache struct {
	mu    sync.Mutex
	slots [rowSlots]rowSlot
}

const (
	rowSlots = 8192 // a power of two
	maxRow   = 512  // bytes of key and value; four megabytes in all
)

type rowSlot struct {
	key, value []byte // key nil: free
	from       uint64 // version since which the row has this value
	looked     uint64 // hash of the last row offered; a row is cached the second time
	written    uint64 // version of the last commit that wrote a row of this slot
}

func (c *rowCache) slot(hash uint64) *rowSlot { return &c.slots[hash&(rowSlots-1)] }

// get returns the row's value in a state that contains version pinned. The value
// belongs to the cache.
func (c *rowCache) get(hash uint64, key []byte, pinned uint64) (value []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slot(hash)
	if s.key == nil || s.from > pinned || !bytes.Equal(s.key, key) {
		return nil, false
	}
	return s.value, true
}

// put offers a row that was read in a state that contains version pinned. The state may
// contain some of the later commits: if one of them wrote to this slot, the version of
// the row is unknown, and it is not cached.
func (c *rowCache) put(hash uint64, key, value []byte, pinned uint64) {
	if len(key)+len(value) > maxRow {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slot(hash)
	again := s.looked == hash
	s.looked = hash
	if again && s.written <= pinned {
		s.key, s.value, s.from = bytes.Clone(key), bytes.Clone(value), pinned
	}
}

// write changes the rows that a commit writes, before its writes can be read: only states
// that contain the commit find the new values. The atomic operations of w are resolved.
func (c *rowCache) write(w *writeSet, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(w.cleared) > 0 {
		// Rare: narrow replaces most ranges by their keys.
		for i := range c.slots {
			c.slots[i] = rowSlot{written: version}
		}
	}
	for i := range w.entries {
		s := c.slot(w.keys.entries[i].hash)
		s.written = version
		if key := w.keys.key(int32(i)); s.key == nil || !bytes.Equal(s.key, key) {
			continue
		}
		if e := &w.entries[i]; e.kind == kindSet && len(s.key)+int(e.len) <= maxRow {
			s.value, s.from = append(make([]byte, 0, e.len), w.value(e)...), version // readers have the old value
		} else {
			s.key, s.value = nil, nil
		}
	}
}

// counterCache has the newest values of keys that were changed by atomic operations,
// so that commits need not read busy counters from the store. The commit lock guards
// it.
type counterCache struct {
	sets [][counterWays]counter
}

type counter struct {
	hash  uint64
	key   []byte // nil: free
	value uint64
}

const (
	counterSets = 1 << 12 // a power of two
	counterWays = 4
)

func newCounterCache() *counterCache {
	return &counterCache{sets: make([][counterWays]counter, counterSets)}
}

func (c *counterCache) set(hash uint64) *[counterWays]counter {
	return &c.sets[hash&(counterSets-1)]
}

func (c *counterCache) get(hash uint64, key []byte) (uint64, bool) {
	set := c.set(hash)
	for i := range set {
		if e := &set[i]; e.key != nil && e.hash == hash && bytes.Equal(e.key, key) {
			return e.value, true
		}
	}
	return 0, false
}

// put caches a value. It may evict the oldest entry of the set.
func (c *counterCache) put(hash uint64, key []byte, value uint64) {
	set := c.set(hash)
	for i := range set {
		if e := &set[i]; e.key != nil && e.hash == hash && bytes.Equal(e.key, key) {
			e.value = value
			return
		}
	}
	copy(set[1:], set[:counterWays-1])
	set[0] = counter{hash: hash, key: append(make([]byte, 0, len(key)), key...), value: value}
}

// drop removes the entries with this hash.
func (c *counterCache) drop(hash uint64) {
	set := c.set(hash)
	for i := range set {
		if set[i].hash == hash {
			set[i] = counter{}
		}
	}
}

func (c *counterCache) reset() { clear(c.sets) }
