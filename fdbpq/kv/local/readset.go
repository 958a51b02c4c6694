package local

import "bytes"

// readSet is the keys and ranges that a transaction's commit depends on.
type readSet struct {
	keys            keySet
	lowest, highest int32 // of the keys, by index
	ranges          []keyRange
	bytes           int // of the ranges' bounds
}

func (r *readSet) addKey(hash uint64, key []byte) {
	i, isNew := r.keys.add(hash, key)
	switch {
	case !isNew:
	case i == 0:
		r.lowest, r.highest = 0, 0
	case bytes.Compare(key, r.keys.key(r.lowest)) < 0:
		r.lowest = i
	case bytes.Compare(key, r.keys.key(r.highest)) > 0:
		r.highest = i
	}
}

// bounds returns the lowest and the highest of the keys.
func (r *readSet) bounds() (lowest, highest []byte) {
	if r.keys.len() == 0 {
		return nil, nil
	}
	return r.keys.key(r.lowest), r.keys.key(r.highest)
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
}
