package peers

import "time"

const (
	// wordAge is how far the time of a word may be from this bridge's. Processes on one store agree on its time to
	// within a second.
	wordAge = 10 * time.Second

	// maxHeard bounds the bridges that are remembered: a store has few.
	maxHeard = 256
)

// memory distinguishes new words from copies. It forgets words older than wordAge, which are refused because of
// their age.
type memory struct {
	last map[string]time.Duration // by bridge: the time of the last word heard
}

// hears records a word of a bridge, and reports whether it is new.
func (m *memory) hears(id string, at, now time.Duration) bool {
	if (at-now).Abs() > wordAge || at <= m.last[id] {
		return false
	}
	if _, known := m.last[id]; !known && len(m.last) >= maxHeard {
		for other, last := range m.last {
			if now-last > wordAge {
				delete(m.last, other)
			}
		}
		if len(m.last) >= maxHeard {
			return false
		}
	}
	m.last[id] = at
	return true
}
