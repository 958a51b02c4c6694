package local

import (
	"bytes"
	"math"
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
	for _, r := range c.ranges {
		if r.contains(key) {
			return true
		}
	}
	return false
}

// wroteIn reports whether the commit may have changed a key of r.
func (c *commit) wroteIn(r keyRange) bool {
	if i := c.keys.search(r.begin); i < c.keys.len() && bytes.Compare(c.keys.key(i), r.end) < 0 {
		return true
	}
	for _, o := range c.ranges {
		if r.overlaps(o) {
			return true
		}
	}
	return false
}

// changesIn widens x by the commit's changes within r.
func (c *commit) changesIn(r keyRange, x *extent) {
	first := c.keys.search(r.begin)
	last := c.keys.search(r.end) - 1
	if first <= last {
		x.widen(c.keys.key(first), c.keys.key(last), false)
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

// changesSince reports whether commits after c changed a key of r.
func (c *commit) changesSince(r keyRange) bool {
	return c.changes(r, math.MaxUint64).begin != nil
}

// firstConflict returns the first commit after c that changed what r depends on, or
// nil, and the last commit that it examined.
func (c *commit) firstConflict(r *readSet) (loss, last *commit) {
	first, final := r.bounds()
	for last = c; ; {
		n := last.next.Load()
		if n == nil {
			return nil, last
		}
		last = n
		if n.conflicts(r, first, final) {
			return n, n
		}
	}
}

// conflicts reports whether the commit changed what r depends on; r's keys lie
// between first and final.
func (c *commit) conflicts(r *readSet, first, final []byte) bool {
	// Most commits concern other queues.
	if n := c.keys.len(); len(c.ranges) > 0 || n > 0 &&
		bytes.Compare(c.keys.key(0), final) <= 0 && bytes.Compare(c.keys.key(n-1), first) >= 0 {
		for i, e := range r.keys.entries {
			if c.wrote(e.hash, r.keys.key(int32(i))) {
				return true
			}
		}
	}
	for _, o := range r.ranges {
		if c.wroteIn(o) {
			return true
		}
	}
	return false
}
