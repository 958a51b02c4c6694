package local

import (
	"bytes"
	"context"
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
