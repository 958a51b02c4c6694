package local

import "bytes"

// pace counts the entries that an iterator passes, and stops it when it has
// passed too many in a row without finding a key that has a value. The store's
// iterators cannot do that: they look for a key until they find one or reach a
// limit, however many tombstones lie on the way. But they report each entry,
// and they look at the limit after each. So the limit is changed under way.
// Should they copy the limit one day, scans would not stop any more, but step
// where they could have jumped.
type stepLimit struct {
	reverse bool
	limit   []byte // what the iterator compares with
	cursor  []byte // the last entry passed
	steps   int
	most    int
	stopped bool
}

// start allows for some more steps before the iterator must stop.
func (p *stepLimit) allow(limit []byte, most int) {
	if p.stopped || !bytes.Equal(p.limit, limit) {
		p.limit = append(p.limit[:0], limit...)
	}
	p.steps, p.most, p.stopped = 0, most, false
}

// step is called for every entry passed; those of a key that has a value are
// among them. The result tells the iterator not to skip the entry.
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

// position returns from where to go on after a stop, in memory of its own: what
// comes before has no value. The last entry itself may have one when it was
// reached backwards, because then the older entries of a key come first.
func (p *stepLimit) resumeAt() []byte { return keyAfter(p.cursor) }
