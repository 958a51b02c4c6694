package peers

import "time"

const (
	// wordAge is how far the time of a word may be from this bridge's. Processes
	// on one store agree on its time to a second.
	wordAge = 10 * time.Second

	// maxHeard bounds the bridges that are remembered: those on one store are few.
	maxHeard = 256
)

// memory distinguishes new words from copies. It forgets words older than wordAge, which
// are refused for their age.
type memory struct {
	last map[string]time.Duration // by bridge: the time of the last word heard
}

// hears records a word, and reports whether it is new.
func (m *memory) hears(w word, now time.Duration) bool {
	if (w.at-now).Abs() > wordAge || w.at <= m.last[w.id] {
		return false
	}
	if _, known := m.last[w.id]; !known && len(m.last) >= maxHeard {
		for id, at := range m.last {
			if now-at > wordAge {
				delete(m.last, id)
			}
		}
		if len(m.last) >= maxHeard {
			return false
		}
	}
	m.last[w.id] = w.at
	return true
}
