package fdbpq

import "time"

// Debt is for how long a bucket allows nothing after late settlements, and for how long then under another rate.
func Debt(rate, next Rate, late int) (under, after time.Duration) {
	const now = 1
	b := bucket{}.refilled(rate, 0, now)
	for range late {
		b.take(1, now)
	}
	changed := b.refilled(next, now, now)
	return time.Duration(b.next() - now), time.Duration(changed.next() - now)
}
