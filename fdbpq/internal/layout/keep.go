package layout

import (
	"slices"
	"time"
)

// Keep is for how long a result is kept: one of a few times, so that the results of each are forgotten in the order in which they
// were made.
type Keep int64

// LongestKeep is the time of the last Keep.
const LongestKeep = 168 * time.Hour

// keeps has the time of each Keep from 1 on.
var keeps = [...]time.Duration{time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, LongestKeep}

// KeepFor is the shortest Keep of a time at least, 0 if there is none.
func KeepFor(ttl time.Duration) Keep {
	return Keep(1 + slices.IndexFunc(keeps[:], func(d time.Duration) bool { return d >= ttl }))
}

// TTL is the time of a Keep, 0 of any other number.
func (k Keep) TTL() time.Duration {
	if k < 1 || int(k) > len(keeps) {
		return 0
	}
	return keeps[k-1]
}

// span is within which time one timer forgets results: a hundredth of their TTL, but not below ten seconds.
func (k Keep) span() int64 { return int64(max(10*time.Second, k.TTL()/100)) }
