package local

import (
	"bytes"
	"slices"
	"sync/atomic"
)

// commit is one committed transaction as later ones need to know it: what it
// wrote, and whether that is durable. Commits form a list in the order of their
// versions. A transaction holds on to the commit that was the newest when it
// began, and with it to all that follow; what nobody holds is garbage, so the
// list needs no trimming.
type commit struct {
	version uint64
	keys    packedKeys // keys set or cleared
	prints  []uint32   // open addressing by hash: the keys' fingerprints, 0 for free
	ranges  []keyRange // ranges cleared

	next    atomic.Pointer[commit]
	durable chan struct{} // closed when the commit and all before it are synced
}

// newCommit describes what w is about to write. w must be sorted.
func newCommit(w *writes) *commit {
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
	c.prints = make([]uint32, slots)
	for _, e := range w.keys.entries {
		at := e.hash & uint64(slots-1)
		for c.prints[at] != 0 {
			at = (at + 1) & uint64(slots-1)
		}
		c.prints[at] = fingerprint(e.hash)
	}
	return c
}

// fingerprint takes the bits of a hash that do not choose its slot.
func fingerprint(hash uint64) uint32 { return uint32(hash>>32) | 1 }

// wrote tells whether the commit may have changed key.
func (c *commit) wrote(hash uint64, key []byte) bool {
	if len(c.prints) > 0 {
		mask := uint64(len(c.prints) - 1)
		for at := hash & mask; c.prints[at] != 0; at = (at + 1) & mask {
			if c.prints[at] != fingerprint(hash) {
				continue
			}
			if i := c.keys.search(key); i < c.keys.len() && bytes.Equal(c.keys.key(i), key) {
				return true
			}
			break // a stranger's fingerprint; were key here, search had found it
		}
	}
	for _, r := range c.ranges {
		if r.contains(key) {
			return true
		}
	}
	return false
}

// wroteIn tells whether the commit may have changed a key of r.
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

// extent widens ext, the smallest range known to hold all changes within r, by
// the commit's own changes there. A zero ext stands for no change.
func (c *commit) extent(r, ext keyRange) keyRange {
	widen := func(begin, end []byte) {
		if ext.begin == nil || bytes.Compare(begin, ext.begin) < 0 {
			ext.begin = begin
		}
		if ext.end == nil || bytes.Compare(end, ext.end) > 0 {
			ext.end = end
		}
	}
	first := c.keys.search(r.begin)
	last := c.keys.search(r.end) - 1
	if first <= last {
		widen(c.keys.key(first), keyAfter(c.keys.key(last)))
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
		widen(o.begin, o.end)
	}
	return ext
}

// changes returns a range that holds every change that commits after c, up to
// version upTo, made within r; a zero range when there is none.
func (c *commit) changes(r keyRange, upTo uint64) keyRange {
	var ext keyRange
	for n := c.next.Load(); n != nil && n.version <= upTo; n = n.next.Load() {
		ext = n.extent(r, ext)
	}
	return ext
}

// conflict returns the first commit after c that changed what r depends on, or
// nil; and the last commit it looked at.
func (c *commit) conflict(r *reads) (loss, last *commit) {
	for last = c; ; {
		n := last.next.Load()
		if n == nil {
			return nil, last
		}
		last = n
		for i, e := range r.keys.entries {
			if n.wrote(e.hash, r.keys.key(int32(i))) {
				return n, n
			}
		}
		for _, rg := range r.ranges {
			if n.wroteIn(rg) {
				return n, n
			}
		}
	}
}
