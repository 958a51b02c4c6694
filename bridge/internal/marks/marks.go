// Package marks remembers keys that are treated specially for a while.
//
// What it guarantees: however many keys there are, few are remembered. When there would be more, all marks end.
package marks

import "time"

// Marks are marked keys. They belong to one goroutine at a time.
type Marks map[string]time.Time // until when

// most bounds the keys with a mark.
const most = 4096

// Add marks keys for a while. A mark that ends later stays.
func (m Marks) Add(d time.Duration, keys ...string) {
	if len(m)+len(keys) > most {
		clear(m)
	}
	until := time.Now().Add(d)
	for _, key := range keys {
		if until.After(m[key]) {
			m[key] = until
		}
	}
}

// Has reports whether a key has a mark.
func (m Marks) Has(key string) bool {
	until, is := m[key]
	if is && !time.Now().Before(until) {
		delete(m, key)
		is = false
	}
	return is
}
