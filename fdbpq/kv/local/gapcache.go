package local

import (
	"bytes"
	"math"
	"slices"
	"sort"
	"sync"
)

// gapCache remembers ranges of the store that have no keys. Pebble marks a cleared
// key with a tombstone that stays until a compaction reaches it, and a scan steps over
// each of them. A queue is popped at its ends, so each pop would step over the
// tombstones of all earlier pops. Instead a scan that stepped over many tombstones
// records a gap, and later scans jump over it.
//
// A gap is true from the version asOf up to now: a commit that sets a key
// within a gap splits it before the key can be read. A transaction that reads
// an older state may use the gap as well, except where commits between its
// state and asOf made changes; see scan.jumpForward.
//
// Adjacent gaps are merged. A piece of a split gap may be full of tombstones, or empty
// between two adjacent keys, as when a drained queue fills up again. So such a piece is
// kept as a guess: a scan does not stop for it, and uses it only when it meets
// tombstones.
type gapCache struct {
	limits gapLimits

	mu             sync.Mutex
	sure, guesses  gapList // no two gaps overlap
	newest, oldest *gap    // list in the order of last use
}

type gap struct {
	keyRange
	asOf uint64
	sure bool // a scan found many tombstones here

	newer, older *gap
}

// gapLimits bound the cache.
type gapLimits struct {
	count     int // gaps at most
	bytes     int // of their keys, at most
	steps     int // over tombstones that make a scan record a gap
	lookAfter int // steps over tombstones after which a scan looks for a gap
}

var defaultGapLimits = gapLimits{count: 1 << 14, bytes: 16 << 20, steps: 2, lookAfter: 32}

// forward returns how a scan from pos towards end can skip a gap. There are no keys from pos
// to jump, where the scan continues up to limit: the next sure gap, or end. The jump holds
// for the version asOf and later.
func (c *gapCache) forward(pos, end []byte) (jump, limit []byte, asOf uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump = pos
	for {
		g := c.sure.at(c.sure.search(jump))
		if g == nil || bytes.Compare(g.begin, jump) > 0 {
			limit = end
			if g != nil && bytes.Compare(g.begin, end) < 0 {
				limit = g.begin
			}
			if g = c.guesses.at(c.guesses.search(jump)); g == nil || bytes.Compare(g.begin, jump) > 0 {
				return jump, limit, asOf
			}
		}
		jump, asOf = g.end, max(asOf, g.asOf)
		c.use(g)
	}
}

// backward does the same for a scan from pos, exclusive, down to begin: the scan continues below jump, down to
// limit, inclusive.
func (c *gapCache) backward(pos, begin []byte) (jump, limit []byte, asOf uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	jump = pos
	for {
		g := c.sure.at(c.sure.searchBack(jump))
		if g == nil || bytes.Compare(g.end, jump) < 0 {
			limit = begin
			if g != nil && bytes.Compare(g.end, begin) > 0 {
				limit = g.end
			}
			if g = c.guesses.at(c.guesses.searchBack(jump)); g == nil || bytes.Compare(g.end, jump) < 0 {
				return jump, limit, asOf
			}
		}
		jump, asOf = g.begin, max(asOf, g.asOf)
		c.use(g)
	}
}

// record records that r has no keys in the state after the commit at, nor in the state
// that a transaction which pinned it reads. It keeps r's slices.
func (c *gapCache) record(r keyRange, at *commit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// Later commits that wrote here have either called written already, so that their
	// changes must be left out, or will call it and split this gap.
	changed := at.changes(r, math.MaxUint64)
	if changed.begin == nil {
		c.insert(gap{keyRange: r, asOf: at.version, sure: true})
	} else {
		c.insert(gap{keyRange: keyRange{r.begin, bytes.Clone(changed.begin)}, asOf: at.version})
		c.insert(gap{keyRange: keyRange{bytes.Clone(changed.end), r.end}, asOf: at.version})
	}
	c.evict()
}

// insert adds g, merged with the gaps that touch or overlap it.
func (c *gapCache) insert(g gap) {
	if bytes.Compare(g.begin, g.end) >= 0 {
		return
	}
	c.absorb(&c.guesses, &g)
	c.absorb(&c.sure, &g)
	c.place(&g)
}

// absorb removes the gaps that touch g from l and widens g by them.
func (c *gapCache) absorb(l *gapList, g *gap) {
	at := l.search(g.begin)
	if left := l.before(at); l.at(left) != nil && bytes.Equal(l.at(left).end, g.begin) {
		at = left
	}
	for {
		o := l.at(at)
		if o == nil || bytes.Compare(o.begin, g.end) > 0 {
			return
		}
		if bytes.Compare(o.begin, g.begin) < 0 {
			g.begin = o.begin
		}
		if bytes.Compare(o.end, g.end) > 0 {
			g.end = o.end
		}
		g.sure = g.sure || o.sure
		g.asOf = max(g.asOf, o.asOf)
		at = c.remove(at, l)
	}
}

// evict removes the least recently used gaps.
func (c *gapCache) evict() {
	for c.len() > c.limits.count || c.sure.bytes+c.guesses.bytes > c.limits.bytes {
		l := c.list(c.oldest)
		c.remove(l.search(c.oldest.begin), l)
	}
}

// written updates the cache before a commit is applied. A key that the commit sets splits a
// gap. A key that it clears between two gaps joins them. Both lists of keys are sorted.
func (c *gapCache) written(set, cleared keyList, version uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writtenIn(&c.guesses, set)
	c.writtenIn(&c.sure, set)
	c.evict()
	for i := 0; i < cleared.len(); i++ {
		key := cleared.key(i)
		if left := c.ending(key); left != nil {
			if right := c.beginningAfter(key); right != nil {
				c.join(left, right, version)
			}
		}
	}
}

// join makes one gap of two and the key between them.
func (c *gapCache) join(left, right *gap, version uint64) {
	if left.sure != right.sure {
		c.insert(gap{keyRange: keyRange{left.end, right.begin}, asOf: version})
		return
	}
	l := c.list(left)
	c.remove(l.search(right.begin), l)
	l.bytes += len(right.end) - len(left.end)
	left.end, left.asOf = right.end, version
}

// keyList is a sorted part of the keys that a transaction writes.
type keyList struct {
	keys *keySet
	list []int32
}

func (l keyList) len() int { return len(l.list) }

func (l keyList) key(i int) []byte { return l.keys.key(l.list[i]) }

// ending returns the gap that ends at key.
func (c *gapCache) ending(key []byte) *gap {
	for _, l := range []*gapList{&c.guesses, &c.sure} {
		if g := l.at(l.searchBack(key)); g != nil && bytes.Equal(g.end, key) {
			return g
		}
	}
	return nil
}

// beginningAfter returns the gap that begins right after key.
func (c *gapCache) beginningAfter(key []byte) *gap {
	for _, l := range []*gapList{&c.guesses, &c.sure} {
		if g := l.at(l.search(key)); g != nil && len(g.begin) == len(key)+1 && g.begin[len(key)] == 0 && bytes.Equal(g.begin[:len(key)], key) {
			return g
		}
	}
	return nil
}

func (c *gapCache) writtenIn(l *gapList, set keyList) {
	n := set.len()
	for i := 0; i < n; {
		at := l.search(set.key(i))
		g := l.at(at)
		if g == nil {
			return
		}
		for i < n && bytes.Compare(set.key(i), g.begin) < 0 {
			i++
		}
		first := i
		for i < n && bytes.Compare(set.key(i), g.end) < 0 {
			i++
		}
		if first < i {
			c.remove(at, l)
			c.split(g, keyList{set.keys, set.list[first:i]})
		}
	}
}

// split inserts the pieces of g between the keys.
func (c *gapCache) split(g *gap, keys keyList) {
	piece := gap{keyRange: g.keyRange, asOf: g.asOf}
	for i := range keys.len() {
		next := keyAfter(keys.key(i))
		piece.end = next[: len(next)-1 : len(next)-1]
		c.placePiece(piece)
		piece.begin = next
	}
	piece.end = g.end
	c.placePiece(piece)
}

func (c *gapCache) placePiece(g gap) {
	if bytes.Compare(g.begin, g.end) < 0 {
		c.place(&g)
	}
}

// size returns how many gaps there are.
func (c *gapCache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.len()
}

func (c *gapCache) len() int { return c.sure.count + c.guesses.count }

func (c *gapCache) list(g *gap) *gapList {
	if g.sure {
		return &c.sure
	}
	return &c.guesses
}

func (c *gapCache) place(g *gap) {
	c.list(g).insert(g)
	c.link(g)
}

// remove removes a gap from l and returns the position of the next one.
func (c *gapCache) remove(at gapPos, l *gapList) gapPos {
	c.unlink(l.at(at))
	return l.remove(at)
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

// gapList is a list of gaps in the order of their keys; they do not overlap. It consists
// of short blocks, which are faster than a tree for finding, inserting and removing a
// gap and its neighbours.
type gapList struct {
	blocks [][]*gap // none is empty
	count  int
	bytes  int // of the gaps' keys
}

const maxGapBlock = 128 // gaps in a block

// gapPos is the position of a gap, or one before the first or after the last.
type gapPos struct {
	block, index int
}

// search returns the position of the first gap that ends after key.
func (l *gapList) search(key []byte) gapPos {
	b := sort.Search(len(l.blocks), func(i int) bool {
		block := l.blocks[i]
		return bytes.Compare(block[len(block)-1].end, key) > 0
	})
	if b == len(l.blocks) {
		return gapPos{b, 0}
	}
	block := l.blocks[b]
	i := sort.Search(len(block), func(i int) bool { return bytes.Compare(block[i].end, key) > 0 })
	return gapPos{b, i}
}

// searchBack returns the position of the last gap that begins before key.
func (l *gapList) searchBack(key []byte) gapPos {
	at := l.search(key)
	if g := l.at(at); g != nil && bytes.Compare(g.begin, key) < 0 {
		return at
	}
	return l.before(at)
}

// at returns the gap at a position, or nil.
func (l *gapList) at(p gapPos) *gap {
	if p.block < 0 || p.block >= len(l.blocks) {
		return nil
	}
	return l.blocks[p.block][p.index]
}

func (l *gapList) before(p gapPos) gapPos {
	if p.index > 0 {
		return gapPos{p.block, p.index - 1}
	}
	if p.block == 0 {
		return gapPos{-1, 0}
	}
	return gapPos{p.block - 1, len(l.blocks[p.block-1]) - 1}
}

// insert inserts g in its order.
func (l *gapList) insert(g *gap) {
	l.count++
	l.bytes += len(g.begin) + len(g.end)
	if len(l.blocks) == 0 {
		l.blocks = append(l.blocks, append(make([]*gap, 0, maxGapBlock), g))
		return
	}
	at := l.search(g.begin)
	if at.block == len(l.blocks) {
		at.block--
		at.index = len(l.blocks[at.block])
	}
	if len(l.blocks[at.block]) == maxGapBlock {
		lower := l.blocks[at.block]
		upper := append(make([]*gap, 0, maxGapBlock), lower[maxGapBlock/2:]...)
		clear(lower[maxGapBlock/2:])
		l.blocks[at.block] = lower[:maxGapBlock/2]
		l.blocks = slices.Insert(l.blocks, at.block+1, upper)
		if at.index > maxGapBlock/2 {
			at.block++
			at.index -= maxGapBlock / 2
		}
	}
	l.blocks[at.block] = slices.Insert(l.blocks[at.block], at.index, g)
}

// remove removes a gap and returns the position of the next one.
func (l *gapList) remove(at gapPos) gapPos {
	g := l.at(at)
	l.count--
	l.bytes -= len(g.begin) + len(g.end)
	block := slices.Delete(l.blocks[at.block], at.index, at.index+1)
	l.blocks[at.block] = block
	switch {
	case len(block) == 0:
		l.blocks = slices.Delete(l.blocks, at.block, at.block+1)
		return gapPos{at.block, 0}
	case at.index == len(block):
		return gapPos{at.block + 1, 0}
	default:
		return at
	}
}

// stepLimit counts the entries that an iterator passes, and stops it when it has passed
// too many in a row without finding a key. Pebble's iterators cannot do that: they pass
// any number of tombstones until they find a key or reach their limit. But they report
// each entry and compare with the limit after each, so stepLimit changes the bytes of
// the limit. If a later Pebble copies the limit, scans become slower but stay correct.
type stepLimit struct {
	reverse bool
	limit   []byte // what the iterator compares with
	cursor  []byte // the last entry passed
	steps   int
	most    int
	stopped bool
}

// allow lets the iterator take up to most further steps.
func (p *stepLimit) allow(limit []byte, most int) {
	if p.stopped || !bytes.Equal(p.limit, limit) {
		p.limit = append(p.limit[:0], limit...)
	}
	p.steps, p.most, p.stopped = 0, most, false
}

// step is called for every entry passed, live keys included. It returns false, so that
// the iterator does not skip the entry.
func (p *stepLimit) step(key []byte) bool {
	p.steps++
	if p.steps < p.most {
		return false
	}
	if p.steps == p.most {
		p.stopped = true
		fill := byte(0)
		if p.reverse {
			fill = 0xff
		}
		for i := range p.limit {
			p.limit[i] = fill
		}
	}
	p.cursor = append(p.cursor[:0], key...)
	return false
}

// resumeAt returns a new key at which to continue after a stop: there are no live keys
// before it. The last entry itself may be live in a backward scan, which sees the older
// entries of a key first.
func (p *stepLimit) resumeAt() []byte { return keyAfter(p.cursor) }
