package local

import (
	"bytes"
	"sync"
)

// rowCache holds rows that one transaction after the other reads, such as the
// configuration of a queue: to look one up in the store takes as long as much of
// the rest of a small transaction. Each row has one slot, which many share.
type rowCache struct {
	mu    sync.Mutex
	slots [rowSlots]rowSlot
}

const (
	rowSlots = 512  // a power of two
	maxRow   = 1024 // bytes of key and value; so it is half a megabyte at most
)

type rowSlot struct {
	key, value []byte // key nil: none is held
	from       uint64 // the row is what it was in this version, and not changed since
	looked     uint64 // hash of the row last looked up in the store: the second time it is held
	written    uint64 // version of the last commit that wrote a row of this slot
}

func (c *rowCache) slot(hash uint64) *rowSlot { return &c.slots[hash&(rowSlots-1)] }

// get returns the row's value in a state that contains all of version pinned.
// It is the cache's.
func (c *rowCache) get(hash uint64, key []byte, pinned uint64) (value []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.slot(hash)
	if s.key == nil || s.from > pinned || !bytes.Equal(s.key, key) {
		return nil, false
	}
	return s.value, true
}

// put offers what was read in a state that contains all of version pinned. The
// state may contain some of later commits: if one of them wrote here, nobody
// knows in which version the row was so.
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

// write forgets what a commit changes. It is called before that can be read.
func (c *rowCache) write(keys *keySet, cleared []keyRange, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, e := range keys.entries {
		s := c.slot(e.hash)
		s.written = version
		if s.key != nil && bytes.Equal(s.key, keys.key(int32(i))) {
			s.key, s.value = nil, nil
		}
	}
	if len(cleared) > 0 {
		// Hardly ever: most are narrowed to the keys that they hold.
		for i := range c.slots {
			c.slots[i] = rowSlot{written: version}
		}
	}
}
