package local

import (
	"bytes"
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// extent is the part of a range that has changes: from the key first to the key last,
// which it includes or not.
type extent struct {
	first, last []byte
	without     bool
}

func (x *extent) widen(first, last []byte, without bool) {
	if x.first == nil || bytes.Compare(first, x.first) < 0 {
		x.first = first
	}
	order := 1
	if x.last != nil {
		order = bytes.Compare(last, x.last)
	}
	if order > 0 || order == 0 && x.without {
		x.last, x.without = last, without
	}
}

// wrote reports whether the commit may have changed key.
func (c *commit) wrote(hash uint64, key []byte) bool {
	return c.wroteKey(hash, key) || c.ranges.contains(key)
}

// wroteKey reports whether the commit set or cleared key.
func (c *commit) wroteKey(hash uint64, key []byte) bool {
	if len(c.fingerprints) > 0 {
		mask := uint64(len(c.fingerprints) - 1)
		for at := hash & mask; c.fingerprints[at] != 0; at = (at + 1) & mask {
			if c.fingerprints[at] != fingerprint(hash) {
				continue
			}
			if i := c.keys.search(key); i < c.keys.len() && bytes.Equal(c.keys.key(i), key) {
				return true
			}
			break // another key's fingerprint: search would have found key
		}
	}
	return false
}

// wroteKeyIn reports whether the commit set or cleared a key of r.
func (c *commit) wroteKeyIn(r keyRange) bool {
	i := c.keys.search(r.begin)
	return i < c.keys.len() && bytes.Compare(c.keys.key(i), r.end) < 0
}

// changesIn widens x by the commit's changes within r.
func (c *commit) changesIn(r keyRange, x *extent) {
	if n := c.keys.len(); n > 0 && bytes.Compare(c.keys.key(0), r.end) < 0 && bytes.Compare(c.keys.key(n-1), r.begin) >= 0 {
		first := c.keys.search(r.begin)
		last := c.keys.search(r.end) - 1
		if first <= last {
			x.widen(c.keys.key(first), c.keys.key(last), false)
		}
	}
	for _, o := range c.ranges {
		if !r.overlaps(o) {
			continue
		}
		if bytes.Compare(o.begin, r.begin) < 0 {
			o.begin = r.begin
		}
		if bytes.Compare(o.end, r.end) > 0 {
			o.end = r.end
		}
		x.widen(o.begin, o.end, true)
	}
}

// changes returns the part of r that commits after c changed, up to version upTo; a
// zero range if there were none.
func (c *commit) changes(r keyRange, upTo uint64) keyRange {
	var x extent
	for n := c.next.Load(); n != nil && n.version <= upTo; n = n.next.Load() {
		n.changesIn(r, &x)
	}
	if x.first != nil && !x.without {
		x.last = keyAfter(x.last)
	}
	return keyRange{x.first, x.last}
}

// firstConflict returns the first commit after c, up to last, that changed something that r depends on, or nil. The
// error says that ctx has ended first.
func (c *commit) firstConflict(ctx context.Context, r *readSet, last *commit) (loss *commit, err error) {
	const heed = 256 // commits between two looks at ctx
	r.order()
	for n, seen := c, 0; n != last; seen++ {
		if seen%heed == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if n = n.next.Load(); n.conflicts(r) {
			return n, nil
		}
	}
	return nil, nil
}

// conflicts reports whether the commit changed something that r depends on; r is in order. Commit and transaction
// may each have one key or thousands, so it searches for the smaller set in the larger one.
func (c *commit) conflicts(r *readSet) bool {
	if r.empty() {
		return false
	}
	for _, o := range c.ranges {
		if bytes.Compare(o.begin, r.highest) <= 0 && bytes.Compare(r.lowest, o.end) < 0 && r.dependsIn(o) {
			return true
		}
	}
	n := c.keys.len()
	if n == 0 || bytes.Compare(c.keys.key(0), r.highest) > 0 || bytes.Compare(c.keys.key(n-1), r.lowest) < 0 {
		return false // most commits concern other queues
	}
	if n < len(r.keys.entries)+len(r.ranges) {
		for i := c.keys.search(r.lowest); i < n; i++ {
			key := c.keys.key(i)
			if bytes.Compare(key, r.highest) > 0 {
				return false
			}
			if r.dependsOn(key) {
				return true
			}
		}
		return false
	}
	for i, e := range r.keys.entries {
		if c.wroteKey(e.hash, r.keys.key(int32(i))) {
			return true
		}
	}
	for _, o := range r.ranges {
		if c.wroteKeyIn(o) {
			return true
		}
	}
	return false
}

// readSet is the keys and ranges that a transaction's commit depends on.
type readSet struct {
	keys   keySet
	ranges rangeSet // as they were added, until order
	bytes  int      // of the ranges' bounds

	ordered         bool
	lowest, highest []byte // no key is outside of these, if it is ordered
}

func (r *readSet) addKey(hash uint64, key []byte) { r.keys.add(hash, key) }

func (r *readSet) empty() bool { return r.keys.len()+len(r.ranges) == 0 }

// order prepares a complete set for comparisons with commits.
func (r *readSet) order() {
	if r.ordered || r.empty() {
		return
	}
	r.ordered = true
	byBegin := func(a, b keyRange) int { return bytes.Compare(a.begin, b.begin) }
	if !slices.IsSortedFunc(r.ranges, byBegin) {
		slices.SortFunc(r.ranges, byBegin)
	}
	merged := r.ranges[:0]
	for _, o := range r.ranges {
		if n := len(merged); n == 0 || bytes.Compare(o.begin, merged[n-1].end) > 0 {
			merged = append(merged, o)
		} else if bytes.Compare(o.end, merged[n-1].end) > 0 {
			merged[n-1].end = o.end
		}
	}
	clear(r.ranges[len(merged):])
	r.ranges = merged
	if n := len(merged); n > 0 {
		r.lowest, r.highest = merged[0].begin, merged[n-1].end
	} else {
		r.lowest, r.highest = r.keys.key(0), r.keys.key(0)
	}
	for i := range r.keys.entries {
		key := r.keys.key(int32(i))
		if bytes.Compare(key, r.lowest) < 0 {
			r.lowest = key
		}
		if bytes.Compare(key, r.highest) > 0 {
			r.highest = key
		}
	}
}

// dependsOn reports whether key is in the set, which is in order.
func (r *readSet) dependsOn(key []byte) bool {
	return r.ranges.contains(key) || len(r.keys.entries) > 0 && r.keys.find(hashKey(key), key) >= 0
}

// dependsIn reports whether a key of o is in the set, which is in order.
func (r *readSet) dependsIn(o keyRange) bool {
	if r.ranges.overlap(o) {
		return true
	}
	for i := range r.keys.entries {
		if o.contains(r.keys.key(int32(i))) {
			return true
		}
	}
	return false
}

// addRange copies the bounds. A range that continues the previous one, as in a loop
// that reads page after page, extends it.
func (r *readSet) addRange(begin, end []byte) {
	if bytes.Compare(begin, end) >= 0 {
		return
	}
	if n := len(r.ranges); n > 0 {
		last := &r.ranges[n-1]
		if bytes.Compare(begin, last.begin) >= 0 && bytes.Compare(begin, last.end) <= 0 {
			if bytes.Compare(end, last.end) > 0 {
				r.bytes += len(end) - len(last.end)
				last.end = bytes.Clone(end)
			}
			return
		}
	}
	buf := make([]byte, len(begin)+len(end))
	n := copy(buf, begin)
	copy(buf[n:], end)
	r.ranges = append(r.ranges, keyRange{buf[:n:n], buf[n:]})
	r.bytes += len(buf)
}

func (r *readSet) size() int { return len(r.keys.arena) + r.bytes }

func (r *readSet) reset() {
	r.keys.reset()
	clear(r.ranges)
	r.ranges = r.ranges[:0]
	r.bytes = 0
	r.ordered, r.lowest, r.highest = false, nil, nil
}

// commit is the keys that a committed transaction wrote, and whether it is durable. Commits
// form a linked list in the order of their versions. A transaction refers to the commit
// that was the newest when it began, and so to all later ones. The garbage collector frees
// earlier ones.
type commit struct {
	version      uint64
	keys         packedKeys // keys set or cleared
	fingerprints []uint32   // open addressing by hash: the keys' fingerprints, 0 for free
	ranges       rangeSet   // ranges cleared

	next    atomic.Pointer[commit]
	durable chan struct{} // closed when the commit and all before it are synced

	batch *pebble.Batch // nil when it is durable
	since time.Time     // when it began to be written
}

// history is the list of commits.
type history struct {
	newest  atomic.Pointer[commit] // the newest commit, readable or about to be
	applied atomic.Pointer[commit] // the newest commit that is certainly readable
}

// newCommit describes the writes of w, which must be sorted.
func newCommit(w *writeSet) *commit {
	c := &commit{durable: make(chan struct{}), ranges: slices.Clone(w.cleared)}
	n := w.keys.len()
	if n == 0 {
		return c
	}
	size := 0
	for _, e := range w.keys.entries {
		size += int(e.len)
	}
	c.keys = packedKeys{data: make([]byte, 0, size), ends: make([]uint32, 0, n)}
	for _, i := range w.sorted {
		c.keys.data = append(c.keys.data, w.keys.key(i)...)
		c.keys.ends = append(c.keys.ends, uint32(len(c.keys.data)))
	}
	slots := 8
	for slots < 2*n {
		slots *= 2
	}
	c.fingerprints = make([]uint32, slots)
	for _, e := range w.keys.entries {
		at := e.hash & uint64(slots-1)
		for c.fingerprints[at] != 0 {
			at = (at + 1) & uint64(slots-1)
		}
		c.fingerprints[at] = fingerprint(e.hash)
	}
	return c
}

// fingerprint returns the bits of a hash that do not choose its slot.
func fingerprint(hash uint64) uint32 { return uint32(hash>>32) | 1 }
