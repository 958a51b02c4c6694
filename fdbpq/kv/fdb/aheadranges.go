//go:build fdb

package fdb

import (
	"bytes"
	"slices"
	"sort"

	apple "github.com/apple/foundationdb/bindings/go/src/fdb"

	"github.com/pqbridge/pqbridge/fdbpq/kv"
)

// aheadRange is a range whose read has begun.
type aheadRange struct {
	begin, end []byte
	opts       kv.RangeOptions
	result     apple.RangeResult

	gone  bool   // it was taken, or a write has changed it
	reach []byte // the furthest end of this range and of all ranges in front of it
}

// aheadRanges are the ranges whose reads have begun. A batch may have some ranges for each of its requests, and
// each read and write of the transaction looks for the ranges that it touches.
type aheadRanges struct {
	all     []*aheadRange // by their begin, once they are ordered
	ordered bool
}

func (a *aheadRanges) add(r *aheadRange) {
	a.all, a.ordered = append(a.all, r), false
}

// order sorts the ranges by their begin.
func (a *aheadRanges) order() {
	a.ordered = true
	a.all = slices.DeleteFunc(a.all, func(r *aheadRange) bool { return r.gone })
	slices.SortFunc(a.all, func(r, other *aheadRange) int { return bytes.Compare(r.begin, other.begin) })
	var reach []byte
	for _, r := range a.all {
		if bytes.Compare(r.end, reach) > 0 {
			reach = r.end
		}
		r.reach = reach
	}
}

// near returns the ranges that have keys from first to last, and maybe others. If no ranges overlap, there are no
// others.
func (a *aheadRanges) near(first, last []byte) []*aheadRange {
	if len(a.all) == 0 {
		return nil
	}
	if !a.ordered {
		a.order()
	}
	from := sort.Search(len(a.all), func(i int) bool { return bytes.Compare(a.all[i].reach, first) > 0 })
	to := sort.Search(len(a.all), func(i int) bool { return bytes.Compare(a.all[i].begin, last) > 0 })
	return a.all[from:max(from, to)]
}

// take returns the result of a read of the same range with the same options, if one has begun. Each result is given
// once.
func (a *aheadRanges) take(begin, end []byte, opts kv.RangeOptions) (apple.RangeResult, bool) {
	for _, r := range a.near(begin, begin) {
		if !r.gone && r.opts == opts && bytes.Equal(r.begin, begin) && bytes.Equal(r.end, end) {
			r.gone = true
			return r.result, true
		}
	}
	return apple.RangeResult{}, false
}

// forget forgets the ranges that have keys from first to last.
func (a *aheadRanges) forget(first, last []byte) {
	for _, r := range a.near(first, last) {
		r.gone = r.gone || bytes.Compare(r.end, first) > 0
	}
}
