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
