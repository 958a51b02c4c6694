package local

import "bytes"

// reads is what a transaction's commit depends on.
type reads struct {
	keys   keySet
	ranges []keyRange
	bytes  int // of the ranges' bounds
}

func (r *reads) addKey(hash uint64, key []byte) { r.keys.add(hash, key) }

// addRange copies the bounds. A range that continues the previous one extends
// it, as a loop that reads batch after batch does.
func (r *reads) addRange(begin, end []byte) {
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

func (r *reads) size() int { return len(r.keys.arena) + r.bytes }

func (r *reads) reset() {
	r.keys.reset()
	clear(r.ranges)
	r.ranges = r.ranges[:0]
	r.bytes = 0
}
