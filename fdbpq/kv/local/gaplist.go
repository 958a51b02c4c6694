package local

import (
	"bytes"
	"slices"
	"sort"
)

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
