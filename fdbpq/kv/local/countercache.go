package local

import "bytes"

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
