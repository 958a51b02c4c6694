package local

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

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
