package local

import (
	"bytes"
	"math"
	"sort"
	"sync"
)

// gapCache remembers ranges of the store that hold no keys. The store marks a
// cleared key with a tombstone that stays until a compaction reaches it, and a
// scan steps over every one of them. A queue is popped at its ends, so each
// pop would step over the remains of all pops before it. Instead a scan that
// had to step over many tombstones leaves a gap here, and later ones jump.
//
// A gap is true from the version asOf up to now: a commit that sets a key
// within a gap splits it before the key can be read. A transaction that reads
// an older state may use the gap as well, except where commits between its
// state and asOf made changes; see scan.segment.
//
// Gaps that touch are merged while few tombstones lie in them. Then a split,
// which cannot know on which side the tombstones are, mistakes only that many,
// and an old gap next to a new one stays as it is.
type gapCache struct {
	limits gapLimits

	mu     sync.Mutex
	blocks [][]*gap // sorted by key; gaps do not overlap; no block is empty
	count  int
	bytes  int

	newest, oldest *gap // list in the order of last use
}

type gap struct {
	keyRange
	asOf   uint64
	weight int // about how many tombstones lie in the gap

	newer, older *gap
}

// gapLimits keep the cache small and to the point.
type gapLimits struct {
	count       int // gaps at most
	bytes       int // of their keys, at most
	mergeWeight int // gaps are merged as long as they weigh no more together
	minWeight   int // below it, stepping is cheaper than jumping
}

var defaultGapLimits = gapLimits{count: 1 << 14, bytes: 16 << 20, mergeWeight: 1 << 14, minWeight: 8}

const maxGapBlock = 128 // gaps in a block

// forward says how to scan from pos towards end: go on at jump, because there
// is nothing from pos up to it, and look for keys up to limit, where the next
// gap begins (or where end is). The jump holds for the version asOf and later.
func (c *gapCache) forward(pos, end []byte) (jump, limit []byte, asOf uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump, limit = pos, end
	for at := c.search(pos); ; at = c.after(at) {
		g := c.at(at)
		if g == nil || bytes.Compare(g.begin, end) >= 0 {
			return jump, limit, asOf
		}
		if bytes.Compare(g.begin, jump) > 0 {
			return jump, g.begin, asOf
		}
		jump, asOf = g.end, max(asOf, g.asOf)
		c.use(g)
	}
}

// backward says how to scan from pos, exclusive, down to begin: go on below
// jump and look for keys down to limit, inclusive.
func (c *gapCache) backward(pos, begin []byte) (jump, limit []byte, asOf uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump, limit = pos, begin
	at := c.search(pos)
	if g := c.at(at); g == nil || bytes.Compare(g.begin, pos) >= 0 {
		at = c.before(at)
	}
	for ; ; at = c.before(at) {
		g := c.at(at)
		if g == nil || bytes.Compare(g.end, begin) <= 0 {
			return jump, limit, asOf
		}
		if bytes.Compare(g.end, jump) < 0 {
			return jump, g.end, asOf
		}
		jump, asOf = g.begin, max(asOf, g.asOf)
		c.use(g)
	}
}

// record remembers that the state right after the commit at, and whatever a
// transaction that pinned it read, has no keys in r and steps were needed to
// find that out. It keeps r's slices.
func (c *gapCache) record(r keyRange, steps int, at *commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Commits that wrote here since then have either split the gaps before and
	// must be looked for, or will do so and find this one.
	changed := at.changes(r, math.MaxUint64)
	if changed.begin == nil {
		c.insert(&gap{keyRange: r, asOf: at.version, weight: steps})
		return
	}
	c.insert(&gap{keyRange: keyRange{r.begin, bytes.Clone(changed.begin)}, asOf: at.version, weight: steps / 2})
	c.insert(&gap{keyRange: keyRange{bytes.Clone(changed.end), r.end}, asOf: at.version, weight: steps / 2})
}

// insert adds g and merges it with the gaps that it meets.
func (c *gapCache) insert(g *gap) {
	at := c.search(g.begin)
	if left := c.before(at); c.at(left) != nil && bytes.Equal(c.at(left).end, g.begin) {
		at = left
	}
	for met := true; met && bytes.Compare(g.begin, g.end) < 0; {
		o := c.at(at)
		if o == nil || bytes.Compare(o.begin, g.end) > 0 {
			break
		}
		if bytes.Compare(o.begin, g.begin) <= 0 && bytes.Compare(o.end, g.end) >= 0 {
			c.use(o)
			return
		}
		weight := max(g.weight, o.weight) // of an overlap: both counted the same tombstones
		if bytes.Equal(o.end, g.begin) || bytes.Equal(o.begin, g.end) {
			weight = g.weight + o.weight
		}
		inside := bytes.Compare(o.begin, g.begin) >= 0 && bytes.Compare(o.end, g.end) <= 0
		switch {
		case inside || weight <= c.limits.mergeWeight:
			if bytes.Compare(o.begin, g.begin) < 0 {
				g.begin = o.begin
			}
			if bytes.Compare(o.end, g.end) > 0 {
				g.end = o.end
			}
			g.weight = weight
			g.asOf = max(g.asOf, o.asOf)
			c.remove(at)
			at = c.search(g.begin)
		case bytes.Compare(o.begin, g.begin) <= 0:
			g.begin = o.end
			at = c.after(at)
		default:
			g.end = o.begin
			met = false
		}
	}
	if bytes.Compare(g.begin, g.end) >= 0 || g.weight < c.limits.minWeight {
		return
	}
	c.place(g)
	c.evict()
}

// evict forgets the gaps that were not used for the longest time.
func (c *gapCache) evict() {
	for c.count > c.limits.count || c.bytes > c.limits.bytes {
		c.remove(c.search(c.oldest.begin))
	}
}

// written takes keys that are about to be set, in order, out of the gaps.
func (c *gapCache) written(n int, key func(int) []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.evict()
	for i := 0; i < n; {
		at := c.search(key(i))
		g := c.at(at)
		if g == nil {
			return
		}
		for i < n && bytes.Compare(key(i), g.begin) < 0 {
			i++
		}
		first := i
		for i < n && bytes.Compare(key(i), g.end) < 0 {
			i++
		}
		if first == i {
			continue
		}
		c.remove(at)
		piece := *g
		piece.weight = g.weight / (i - first + 1)
		if piece.weight < c.limits.minWeight {
			continue
		}
		for ; first < i; first++ {
			next := keyAfter(key(first))
			piece.end = next[: len(next)-1 : len(next)-1]
			c.placePiece(piece)
			piece.begin = next
		}
		piece.end = g.end
		c.placePiece(piece)
	}
}

func (c *gapCache) placePiece(g gap) {
	if bytes.Compare(g.begin, g.end) < 0 {
		c.place(&g)
	}
}

func (c *gapCache) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count
}

// place puts g where it belongs; it overlaps no other gap.
func (c *gapCache) place(g *gap) {
	c.count++
	c.bytes += len(g.begin) + len(g.end)
	c.link(g)
	if len(c.blocks) == 0 {
		c.blocks = append(c.blocks, append(make([]*gap, 0, maxGapBlock), g))
		return
	}
	at := c.search(g.begin)
	if at.block == len(c.blocks) {
		at.block--
		at.index = len(c.blocks[at.block])
	}
	block := c.blocks[at.block]
	if len(block) == maxGapBlock {
		upper := append(make([]*gap, 0, maxGapBlock), block[maxGapBlock/2:]...)
		clear(block[maxGapBlock/2:])
		c.blocks[at.block] = block[:maxGapBlock/2]
		c.blocks = append(c.blocks, nil)
		copy(c.blocks[at.block+2:], c.blocks[at.block+1:])
		c.blocks[at.block+1] = upper
		if at.index > maxGapBlock/2 {
			at.block++
			at.index -= maxGapBlock / 2
		}
		block = c.blocks[at.block]
	}
	block = append(block, nil)
	copy(block[at.index+1:], block[at.index:])
	block[at.index] = g
	c.blocks[at.block] = block
}

func (c *gapCache) remove(at gapPos) {
	block := c.blocks[at.block]
	g := block[at.index]
	c.count--
	c.bytes -= len(g.begin) + len(g.end)
	c.unlink(g)
	copy(block[at.index:], block[at.index+1:])
	block[len(block)-1] = nil
	c.blocks[at.block] = block[:len(block)-1]
	if len(block) == 1 {
		c.blocks = append(c.blocks[:at.block], c.blocks[at.block+1:]...)
	}
}

// gapPos is the place of a gap in the blocks, or one before or after them all.
type gapPos struct {
	block, index int
}

// search returns the place of the first gap that ends after key.
func (c *gapCache) search(key []byte) gapPos {
	b := sort.Search(len(c.blocks), func(i int) bool {
		block := c.blocks[i]
		return bytes.Compare(block[len(block)-1].end, key) > 0
	})
	if b == len(c.blocks) {
		return gapPos{b, 0}
	}
	block := c.blocks[b]
	i := sort.Search(len(block), func(i int) bool { return bytes.Compare(block[i].end, key) > 0 })
	return gapPos{b, i}
}

func (c *gapCache) at(p gapPos) *gap {
	if p.block < 0 || p.block >= len(c.blocks) {
		return nil
	}
	return c.blocks[p.block][p.index]
}

func (c *gapCache) after(p gapPos) gapPos {
	if p.index+1 < len(c.blocks[p.block]) {
		return gapPos{p.block, p.index + 1}
	}
	return gapPos{p.block + 1, 0}
}

func (c *gapCache) before(p gapPos) gapPos {
	if p.index > 0 {
		return gapPos{p.block, p.index - 1}
	}
	if p.block == 0 {
		return gapPos{-1, 0}
	}
	return gapPos{p.block - 1, len(c.blocks[p.block-1]) - 1}
}

// use marks g as the most recently used.
func (c *gapCache) use(g *gap) {
	if c.newest != g {
		c.unlink(g)
		c.link(g)
	}
}

func (c *gapCache) link(g *gap) {
	g.newer, g.older = nil, c.newest
	if c.newest != nil {
		c.newest.newer = g
	} else {
		c.oldest = g
	}
	c.newest = g
}

func (c *gapCache) unlink(g *gap) {
	if g.newer != nil {
		g.newer.older = g.older
	} else {
		c.newest = g.older
	}
	if g.older != nil {
		g.older.newer = g.newer
	} else {
		c.oldest = g.newer
	}
	g.newer, g.older = nil, nil
}
