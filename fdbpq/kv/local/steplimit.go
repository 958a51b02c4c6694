package local

import "bytes"

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
