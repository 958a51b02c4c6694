package local

import (
	"bytes"
	"slices"
)

// readSet is the keys and ranges that a transaction's commit depends on.
type readSet struct {
	keys   keySet
	ranges rangeSet // as they were added, until order
	bytes  int      // of the ranges' bounds

	ordered         bool
	lowest, highest []byte // no key is outside of these, if it is ordered
}

func (r *readSet) addKey(hash uint64, key []byte) { r.keys.add(hash, key) }

func (r *readSet) empty() bool { return r.keys.len()+len(r.ranges) == 0 }

// order prepares a complete set for comparisons with commits.
func (r *readSet) order() {
	if r.ordered || r.empty() {
		return
	}
	r.ordered = true
	byBegin := func(a, b keyRange) int { return bytes.Compare(a.begin, b.begin) }
	if !slices.IsSortedFunc(r.ranges, byBegin) {
		slices.SortFunc(r.ranges, byBegin)
	}
	merged := r.ranges[:0]
	for _, o := range r.ranges {
		if n := len(merged); n == 0 || bytes.Compare(o.begin, merged[n-1].end) > 0 {
			merged = append(merged, o)
		} else if bytes.Compare(o.end, merged[n-1].end) > 0 {
			merged[n-1].end = o.end
		}
	}
	clear(r.ranges[len(merged):])
	r.ranges = merged
	if n := len(merged); n > 0 {
		r.lowest, r.highest = merged[0].begin, merged[n-1].end
	} else {
		r.lowest, r.highest = r.keys.key(0), r.keys.key(0)
	}
	for i := range r.keys.entries {
		key := r.keys.key(int32(i))
		if bytes.Compare(key, r.lowest) < 0 {
			r.lowest = key
		}
		if bytes.Compare(key, r.highest) > 0 {
			r.highest = key
		}
	}
}

// dependsOn reports whether key is in the set, which is in order.
func (r *readSet) dependsOn(key []byte) bool {
	return r.ranges.contains(key) || len(r.keys.entries) > 0 && r.keys.find(hashKey(key), key) >= 0
}

// dependsIn reports whether a key of o is in the set, which is in order.
func (r *readSet) dependsIn(o keyRange) bool {
	if r.ranges.overlap(o) {
		return true
	}
	for i := range r.keys.entries {
		if o.contains(r.keys.key(int32(i))) {
			return true
		}
	}
	return false
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
	r.ordered, r.lowest, r.highest = false, nil, nil
}
