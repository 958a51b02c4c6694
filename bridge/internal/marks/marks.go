// Package marks remembers keys that are treated specially for a while.
//
// What it guarantees: however many keys there are, few are remembered. When there would be more, all marks end.
package marks

import "time"

// Marks are marked keys. They belong to one goroutine at a time.
type Marks[K comparable] map[K]time.Time // until when

// most bounds the keys with a mark.
const most = 4096

// Add marks a key for a while. A mark that ends later stays.
func (m Marks[K]) Add(d time.Duration, key K) {
	if len(m) >= most {
		clear(m)
	}
	if until := time.Now().Add(d); until.After(m[key]) {
		m[key] = until
	}
}

// Has reports whether a key has a mark.
func (m Marks[K]) Has(key K) bool {
	until, is := m[key]
	if is && !time.Now().Before(until) {
		delete(m, key)
		is = false
	}
	return is
}
